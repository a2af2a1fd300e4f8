package queue

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"coalmine/internal/must"
)

// TestRedisErrorsAreClassified has a row for each row of the table: an answer as Redis words it,
// and the error by which the rest of the program decides.
func TestRedisErrorsAreClassified(t *testing.T) {
	t.Parallel()
	tested := make(map[string]bool)
	for answer, want := range map[string]struct {
		mark error
		says string
	}{
		"LOADING Redis is loading the dataset in memory":                                                   {ErrUnreachable, "in a moment"},
		"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.":           {ErrUnreachable, "SCRIPT KILL"},
		"UNKILLABLE Sorry the script already executed write commands against the dataset.":                 {ErrUnreachable, "script"},
		"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.":                 {ErrUnreachable, "lost its master"},
		"UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)":     {ErrUnreachable, "role"},
		"EXECABORT Transaction discarded because of previous errors.":                                      {ErrUnreachable, "log"},
		"ERR max number of clients reached":                                                                {ErrUnreachable, "maxclients"},
		"MISCONF Errors writing to the AOF file: No space left on device":                                  {ErrNoWrites, "CONFIG SET appendonly no"},
		"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.": {ErrNoWrites, "make room on its disk"},
		"READONLY You can't write against a read only replica.":                                            {ErrNoWrites, "master"},
		"OOM command not allowed when used memory > 'maxmemory'.":                                          {ErrNoWrites, "maxmemory"},
		"NOREPLICAS Not enough good replicas to write.":                                                    {ErrNoWrites, "min-replicas-to-write"},
		"NOPERM this user has no permissions to run the 'set' command":                                     {ErrNoWrites, "docs/operations.md"},
		"NOAUTH Authentication required.":                                                                  {ErrUnsuitable, "password_file"},
		"WRONGPASS invalid username-password pair or user is disabled.":                                    {ErrUnsuitable, "password_file"},
		"ERR invalid password": {ErrUnsuitable, "password_file"},
		"ERR AUTH <password> called without any password configured for the default user.":                    {ErrUnsuitable, "out of the URL"},
		"DENIED Redis is running in protected mode because protected mode is enabled":                         {ErrUnsuitable, "protected mode"},
		"WRONGTYPE Operation against a key holding the wrong kind of value":                                   {ErrUnsuitable, "another program"},
		"NOPROTO unsupported protocol version":                                                                {ErrUnsuitable, "6.2"},
		"ERR DB index is out of range":                                                                        {ErrUnsuitable, "databases"},
		"ERR unknown command 'BLPOP', with args beginning with: 'x'":                                          {ErrUnsuitable, "renamed"},
		"MOVED 3999 127.0.0.1:6381":                                                                           {ErrUnsuitable, "Redis Cluster"},
		"ASK 3999 127.0.0.1:6381":                                                                             {ErrUnsuitable, "Redis Cluster"},
		"CROSSSLOT Keys in request don't hash to the same slot":                                               {ErrUnsuitable, "Redis Cluster"},
		"TRYAGAIN Multiple keys request during rehashing of slot":                                             {ErrUnsuitable, "Redis Cluster"},
		"CLUSTERDOWN The cluster is down":                                                                     {ErrUnsuitable, "Redis Cluster"},
		"asynq: redis eval error: OOM command not allowed when used memory > 'maxmemory'. script: 12ab, on @": {ErrNoWrites, "maxmemory"},
	} {
		err := Explain(fmt.Errorf("enqueuing 2 messages: %w", errors.New(answer)))
		trouble, ok := errors.AsType[*KnownError](err)
		if !ok || !errors.Is(err, want.mark) || !strings.Contains(err.Error(), want.says) || !strings.Contains(err.Error(), answer) {
			t.Errorf("%q: %v, want one that wraps %q and says %q", answer, err, want.mark, want.says)
			continue
		}
		if !strings.Contains(trouble.Brief(), trouble.cause) || strings.Contains(trouble.Brief(), answer) {
			t.Errorf("%q in brief: %q", answer, trouble.Brief())
		}
		word, _, _ := strings.Cut(answer, " ")
		tested[word] = true
		for phrase := range phrases {
			if strings.Contains(answer, phrase) {
				tested[phrase] = true
			}
		}
	}
	for word := range meanings {
		if !tested[word] {
			t.Errorf("%s of the table is not tested", word)
		}
	}
	for phrase := range phrases {
		if !tested[phrase] {
			t.Errorf("%q of the table is not tested", phrase)
		}
	}
	if err := errors.New("dial tcp 10.0.0.1:6379: connect: connection refused"); Explain(err) != err {
		t.Errorf("of a connection: %v", Explain(err))
	}
}

func TestRedisClusterIsRejected(t *testing.T) {
	t.Parallel()
	node := startRedis(t, "--cluster-enabled", "yes")
	if err := openError(t, node.URL()); !errors.Is(err, ErrUnsuitable) || !strings.Contains(err.Error(), "Redis Cluster") {
		t.Errorf("a node of a cluster: %v", err)
	}
}

func TestServerWithoutWritesIsNotReady(t *testing.T) {
	t.Parallel()
	server := startRedis(t)
	conn := mustOpen(t, server.URL())
	set := func(parameter, value string) {
		t.Helper()
		must.Do(t, bypass(t, server.Addr()).ConfigSet(t.Context(), parameter, value).Err())
	}
	for parameter, values := range map[string][2]string{"min-replicas-to-write": {"1", "0"}, "maxmemory": {"1", "0"}} {
		set(parameter, values[0])
		if err := conn.Ping(t.Context()); !errors.Is(err, ErrNoWrites) || !strings.Contains(err.Error(), server.Addr()) {
			t.Errorf("with %s %s: %v", parameter, values[0], err)
		}
		if err := openError(t, server.URL()); !errors.Is(err, ErrNoWrites) {
			t.Errorf("opened with %s %s: %v", parameter, values[0], err)
		}
		set(parameter, values[1])
		if err := conn.Ping(t.Context()); err != nil {
			t.Errorf("with %s %s: %v", parameter, values[1], err)
		}
	}
}

func TestReplacedPasswordFileIsReadAgain(t *testing.T) {
	t.Parallel()
	server := startRedis(t)
	lock(t, server, "0ld")
	file := writeFile(t, "0ld\n")
	conn := mustOpen(t, "redis://"+server.Addr()+"?password_file="+file)
	rotate(t, server.Addr())
	if err := conn.Ping(t.Context()); !errors.Is(err, ErrUnsuitable) || !strings.Contains(err.Error(), "password_file") {
		t.Errorf("with the old password: %v", err)
	}
	must.Do(t, os.WriteFile(file, []byte("n3w\n"), 0o600))
	if err := conn.Ping(t.Context()); err != nil {
		t.Errorf("with the new password in the file: %v", err)
	}
}

// rotate changes the password and ends all connections, as a restart of the server does.
func rotate(t *testing.T, addr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c := redis.NewClient(&redis.Options{Addr: addr, Password: "0ld"})
	defer func() { _ = c.Close() }()
	must.Do(t, c.ConfigSet(ctx, "requirepass", "n3w").Err())
	must.Do(t, c.ClientKillByFilter(ctx, "TYPE", "normal", "SKIPME", "yes").Err())
}
