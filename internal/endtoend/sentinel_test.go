package endtoend_test

import (
	"context"
	"crypto/tls"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"coalmine/internal/must"
	"coalmine/internal/secrets"
	"coalmine/internal/testserver"
)

// replicated is a Redis with a replica, which three Sentinels watch: all of them
// over TLS, with client certificates and passwords.
type replicated struct {
	t               testing.TB
	master, replica *testserver.Redis
	sentinels       []*testserver.Sentinel
	url             string // with its passwords in files
	config          *tls.Config
}

const (
	masterName       = "coalmine"
	redisPassword    = "password-of-redis"
	sentinelPassword = "password-of-sentinels"
)

func startReplicated(t testing.TB, w workspace) *replicated {
	t.Helper()
	ca := testserver.NewAuthority(t)
	pair := ca.Issue("redis")
	r := &replicated{t: t}
	login := []string{"--requirepass", redisPassword, "--masterauth", redisPassword, "--tls-replication", "yes", "--repl-diskless-sync-delay", "0"}
	r.master = testserver.StartSecureRedis(t, ca, pair, login...)
	host, port, _ := net.SplitHostPort(r.master.Addr())
	r.replica = testserver.StartSecureRedis(t, ca, pair, append(login, "--replicaof", host+" "+port)...)
	var hosts []string
	for range 3 {
		s := testserver.StartSentinel(t, testserver.SentinelConfig{
			Master: r.master.Addr(), Name: masterName, Quorum: 2,
			Password: sentinelPassword, MasterPassword: redisPassword, Authority: ca, Pair: pair,
		})
		r.sentinels = append(r.sentinels, s)
		hosts = append(hosts, s.Addr())
	}
	me := ca.Issue("coalmine")
	files := secrets.CertificateFiles{CA: ca.File, Certificate: me.Certificate, Key: me.Key}
	r.config = must.Get(files.Config())(t)
	w.write("redis-password", redisPassword)
	w.write("sentinel-password", sentinelPassword+"\n")
	r.url = "rediss-sentinel://" + strings.Join(hosts, ",") + "/0?master=" + masterName +
		"&password_file=redis-password&sentinel_password_file=sentinel-password" +
		"&ca=" + files.CA + "&cert=" + files.Certificate + "&key=" + files.Key
	return r
}

func (r *replicated) ask(s *testserver.Sentinel, question func(context.Context, *redis.SentinelClient) bool) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	c := redis.NewSentinelClient(&redis.Options{Addr: s.Addr(), Password: sentinelPassword, TLSConfig: r.config.Clone()})
	defer c.Close()
	return question(ctx, c)
}

// agreed reports whether all Sentinels know each other and the replica: before
// that they could not replace the master.
func (r *replicated) agreed() bool {
	for _, s := range r.sentinels {
		if !r.ask(s, func(ctx context.Context, c *redis.SentinelClient) bool {
			others, _ := c.Sentinels(ctx, masterName).Result()
			replicas, _ := c.Replicas(ctx, masterName).Result()
			return len(others) == len(r.sentinels)-1 && len(replicas) == 1 && replicas[0]["master-link-status"] == "ok"
		}) {
			return false
		}
	}
	return true
}

// failedOver reports whether the Sentinels send clients to the replica.
func (r *replicated) failedOver() bool {
	return r.ask(r.sentinels[0], func(ctx context.Context, c *redis.SentinelClient) bool {
		address, _ := c.GetMasterAddrByName(ctx, masterName).Result()
		return len(address) == 2 && net.JoinHostPort(address[0], address[1]) == r.replica.Addr()
	})
}

func TestARunOutlivesTheMasterOfItsRedis(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*testserver.Redis){
		"killed": (*testserver.Redis).Kill,
		"frozen": func(r *testserver.Redis) { r.Signal(syscall.SIGSTOP) }, // as if its machine were off the network
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			replaceMaster(t, end)
		})
	}
}

// replaceMaster ends the master in the middle of a run.
func replaceMaster(t *testing.T, end func(*testserver.Redis)) {
	x := team{newWorkspace(t), "", t.TempDir()}
	r := startReplicated(t, x.workspace)
	x.redis = r.url
	coordinator := start(t, x.coalmine("serve", "--listen", "127.0.0.1:0"))
	worker := start(t, x.coalmine("worker", "--slots", "1"))
	coordinator.await("the Sentinels have found each other and the replica", r.agreed)
	id := x.submit()

	worker.await("nodes are committed", x.progressed(20))
	ended := time.Now()
	end(r.master)
	worker.await("the Sentinels have made the replica master", r.failedOver)
	chosen := time.Since(ended)
	worker.await("a node is committed again", x.progressed(1))
	t.Logf("from the end of the master to a new one %.1f s, to the next commit %.1f s", chosen.Seconds(), time.Since(ended).Seconds())

	x.ends(id)
}
