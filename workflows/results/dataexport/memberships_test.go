package dataexport

import (
	"testing"

	"coalmine/tasks/audits/membership/membership"
)

// A model that gives the probabilities of targets alone has no scores by its distribution; they are absent, not 0.
func TestUnknownScoresAreNull(t *testing.T) {
	t.Parallel()
	row := membershipOf(3, &membership.User{UserLoss: membership.UserLoss{Targets: 2, Loss: 5, ByToken: true, LogProbsAlone: true, MinK: -4}})
	if row.User != 3 || row.MinK == nil || *row.MinK != -4 || row.MinKPlusPlus != nil || row.Curvature != nil {
		t.Errorf("%+v", row)
	}
}
