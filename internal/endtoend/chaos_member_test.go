//go:build linux

package endtoend_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"coalmine/internal/testserver"
)

// role is the role of a process in an arena.
type role string

const (
	coordinatorRole role = "coordinator"
	workerRole      role = "worker"
)

// member is a process of an arena, started again under the same name whenever
// it has ended, as a service manager does.
type member struct {
	arena            *arena
	role             role
	name             string
	toRedis, toStore *testserver.Link

	process *process
	births  int
	killed  bool
	asked   bool // to end: by a signal, or to be drained
	isReady bool
	again   time.Time // when one that ended by itself is started again
}

// add adds a process to the arena, with ways of its own to the servers.
func (a *arena) add(role role, i int) {
	m := &member{arena: a, role: role, name: fmt.Sprintf("%s-%d", role, i+1), toRedis: testserver.NewLink(a.t, a.redis.Addr())}
	if a.front != nil {
		m.toStore = testserver.NewLink(a.t, a.front.Addr())
	}
	a.members = append(a.members, m)
}

func (m *member) arguments() []string {
	if m.role == coordinatorRole {
		return []string{"serve", "--listen", "127.0.0.1:0", "--log-level", "info"}
	}
	arguments := []string{"worker", "--listen", "127.0.0.1:0", "--slots", "1", "--grace", "2s", "--log-level", "info"}
	if m.arena.programs {
		arguments = append(arguments, "--allow-commands")
	}
	return append(arguments, m.arena.workerArguments...)
}

// announcement is the text that a process writes once it is at work.
func (m *member) announcement() []byte {
	if m.role == coordinatorRole {
		return []byte("serving ")
	}
	return []byte("worker started")
}

func (m *member) start() {
	if m.births == maxBirths {
		m.arena.t.Fatalf("%s does not start; its log is %s", m.name, m.log())
	}
	m.births++
	m.killed, m.isReady, m.asked = false, false, false
	c := workspace{m.arena.t, m.arena.dir}.coalmine(m.arguments()...)
	c.name, c.log = m.name, m.log()
	s3 := ""
	if m.toStore != nil {
		s3 = m.toStore.Addr()
	}
	c.env = append(m.arena.environment(m.toRedis.Addr(), s3), m.ofPrograms()...)
	m.process = start(m.arena.t, c)
}

func (m *member) log() string {
	return filepath.Join(m.arena.dir, fmt.Sprintf("%s.%d.log", m.name, m.births))
}

func (m *member) kill() {
	m.killed = true
	m.process.kill()
}

// terminate asks the process to end, which is no death.
func (m *member) terminate() {
	m.asked = true
	m.process.signal(syscall.SIGTERM)
}

// ready reports whether the process is at work.
func (m *member) ready() bool {
	if m.killed || m.process.hasEnded() {
		return false
	}
	if !m.isReady {
		text, _ := os.ReadFile(m.log()) // the process makes it
		m.isReady = bytes.Contains(text, m.announcement())
	}
	return m.isReady
}

// restartPause is the pause of service managers before they start a process
// again, and maxBirths the limit of starts in one schedule.
const (
	restartPause = 300 * time.Millisecond
	maxBirths    = 60
)

// obeyed reports whether a process that has ended did so because it was asked to.
func (m *member) obeyed() bool {
	code := m.process.exitCode()
	return m.asked && (code == exitDone || code == exitInterrupted)
}

// Exit statuses of a process that was asked to end.
const (
	exitDone        = 0
	exitInterrupted = 3
)

// tend starts a process again that has ended by itself. It may do so only before
// it was at work: a server that does not answer at the start is a reason to give
// up, later it is not.
func (m *member) tend() {
	if m.killed || !m.process.hasEnded() {
		m.ready()
		return
	}
	switch {
	case m.again.IsZero():
		m.isReady = false
		text, _ := os.ReadFile(m.log())
		if !m.obeyed() && bytes.Contains(text, m.announcement()) {
			m.arena.t.Errorf("%s was at work and ended by itself with exit status %d; its log is %s", m.name, m.process.exitCode(), m.log())
		}
		m.again = time.Now().Add(restartPause)
	case time.Now().After(m.again):
		m.again = time.Time{}
		m.start()
	}
}
