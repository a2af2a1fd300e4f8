package membership

import "coalmine/tasks/audits"

// Row implements audits.Verdict.
func (v *Verdict) Row() any {
	r := row{}
	if v.Attacks == nil {
		return r
	}
	r.Members, r.Sharers, r.HeldOut, r.References = new(int64(v.Members)), new(int64(v.Sharers)), new(int64(v.HeldOut)), new(int64(v.References))
	r.AUC, r.AUCLow, r.AUCHigh = v.auc(Loss).columns()
	r.TPR1, r.TPR1Low, r.TPR1High = columns(v.rate(Loss, 0))
	r.TPR01, r.TPR01Low, r.TPR01High = columns(v.rate(Loss, 1))
	r.LiRA, r.LiRALow, r.LiRAHigh = v.auc(LiRA).columns()
	r.LiRATPR1, _, _ = columns(v.rate(LiRA, 0))
	r.LiRATPR01, _, _ = columns(v.rate(LiRA, 1))
	r.LiRAOffline, r.LiRAOfflineLow, r.LiRAOfflineHigh = v.auc(LiRAOffline).columns()
	r.RMIA, r.RMIALow, r.RMIAHigh = v.auc(RMIA).columns()
	r.RMIATPR1, _, _ = columns(v.rate(RMIA, 0))
	r.RMIATPR01, _, _ = columns(v.rate(RMIA, 1))
	r.RMIAOffline, r.RMIAOfflineLow, r.RMIAOfflineHigh = v.auc(RMIAOffline).columns()
	if s := v.find(Loss).Sharers; s != nil {
		r.SharersAUC, r.SharersAUCLow, r.SharersAUCHigh = s.AUC.columns()
	}
	return r
}

func (a *AUC) columns() (value, low, high *float64) {
	if a == nil {
		return nil, nil, nil
	}
	return &a.Value, &a.Low, &a.High
}

func columns(s *audits.Share) (value, low, high *float64) {
	if s == nil {
		return nil, nil, nil
	}
	return &s.Share, &s.Low, &s.High
}

type row struct {
	Members         *int64   `parquet:"membership_members"`
	Sharers         *int64   `parquet:"membership_sharers"`
	HeldOut         *int64   `parquet:"membership_held_out"`
	References      *int64   `parquet:"membership_references"`
	AUC             *float64 `parquet:"membership_auc"`
	AUCLow          *float64 `parquet:"membership_auc_low"`
	AUCHigh         *float64 `parquet:"membership_auc_high"`
	TPR1            *float64 `parquet:"membership_tpr_1"`
	TPR1Low         *float64 `parquet:"membership_tpr_1_low"`
	TPR1High        *float64 `parquet:"membership_tpr_1_high"`
	TPR01           *float64 `parquet:"membership_tpr_01"`
	TPR01Low        *float64 `parquet:"membership_tpr_01_low"`
	TPR01High       *float64 `parquet:"membership_tpr_01_high"`
	SharersAUC      *float64 `parquet:"membership_sharers_auc"`
	SharersAUCLow   *float64 `parquet:"membership_sharers_auc_low"`
	SharersAUCHigh  *float64 `parquet:"membership_sharers_auc_high"`
	LiRA            *float64 `parquet:"membership_lira_auc"`
	LiRALow         *float64 `parquet:"membership_lira_auc_low"`
	LiRAHigh        *float64 `parquet:"membership_lira_auc_high"`
	LiRATPR1        *float64 `parquet:"membership_lira_tpr_1"`
	LiRATPR01       *float64 `parquet:"membership_lira_tpr_01"`
	LiRAOffline     *float64 `parquet:"membership_lira_offline_auc"`
	LiRAOfflineLow  *float64 `parquet:"membership_lira_offline_auc_low"`
	LiRAOfflineHigh *float64 `parquet:"membership_lira_offline_auc_high"`
	RMIA            *float64 `parquet:"membership_rmia_auc"`
	RMIALow         *float64 `parquet:"membership_rmia_auc_low"`
	RMIAHigh        *float64 `parquet:"membership_rmia_auc_high"`
	RMIATPR1        *float64 `parquet:"membership_rmia_tpr_1"`
	RMIATPR01       *float64 `parquet:"membership_rmia_tpr_01"`
	RMIAOffline     *float64 `parquet:"membership_rmia_offline_auc"`
	RMIAOfflineLow  *float64 `parquet:"membership_rmia_offline_auc_low"`
	RMIAOfflineHigh *float64 `parquet:"membership_rmia_offline_auc_high"`
}
