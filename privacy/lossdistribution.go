package privacy

// lossDistribution is a placeholder signature until package pld is wired.
func (r Recipe) lossDistribution() (*Interval, error) { return nil, nil }
