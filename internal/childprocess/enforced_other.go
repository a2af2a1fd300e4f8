//go:build !linux

package childprocess

// Enforced is nothing on this platform.
func Enforced() Enforcement { return Enforcement{} }
