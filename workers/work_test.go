package workers

import (
	"math"
	"testing"
	"time"
)

func TestTokenRateFollowsRecentWork(t *testing.T) {
	t.Parallel()
	var w work
	now := time.Unix(1000, 0)
	if got := w.soFar(now); got.TokensPerSecond != 0 || got.Tokens != 0 {
		t.Errorf("before anything is done: %+v", got)
	}
	for range 100 { // 200 tokens a second, for long
		now = now.Add(time.Second)
		w.tokens.Add(200)
		w.soFar(now)
	}
	if got := w.soFar(now); math.Abs(got.TokensPerSecond-200) > 1 || got.Tokens != 20_000 {
		t.Errorf("after 100 s at 200 tokens a second: %+v", got)
	}
	if got := w.soFar(now.Add(lately)); math.Abs(got.TokensPerSecond-100) > 1 {
		t.Errorf("after %s without tokens: %+v, want half the rate", lately, got)
	}
}

func TestLookupsOfAllCachesCountTogether(t *testing.T) {
	t.Parallel()
	m := newMetrics(nil, nil)
	blobs, disk := m.gauge("blobs"), m.gauge("disk")
	blobs.looked(true)
	disk.looked(true)
	disk.looked(false)
	var none cacheMetrics
	none.looked(true)
	if got := m.work.soFar(time.Unix(0, 0)); got.CacheHits != 2 || got.CacheMisses != 1 {
		t.Errorf("got %+v", got)
	}
}
