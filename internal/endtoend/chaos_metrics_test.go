//go:build linux

package endtoend_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"coalmine/internal/must"
)

// vitals are the resources of a process at one moment. The heap is that after the
// last collection, without the garbage since; it counts so under GOGC=100 only.
type vitals struct {
	resident, heap          float64 // bytes
	goroutines, descriptors float64
}

// vitals asks the process and the system. It fails the test if either does not
// answer.
func (m *member) vitals() vitals {
	m.arena.t.Helper()
	told, err := m.metrics()
	if err != nil {
		m.arena.t.Fatalf("%s: %v", m.name, err)
	}
	entries := must.Get(os.ReadDir(fmt.Sprintf("/proc/%d/fd", m.process.cmd.Process.Pid)))(m.arena.t)
	return vitals{
		resident:    told["process_resident_memory_bytes"],
		heap:        told["go_memstats_next_gc_bytes"] / 2, // the next is due when it has doubled
		goroutines:  told["go_goroutines"],
		descriptors: float64(len(entries)),
	}
}

// announcedURL is where a process says in its log that it answers.
var announcedURL = regexp.MustCompile(` at (http://127\.0\.0\.1:\d+)\n`)

// metrics reads the metrics without labels that a process tells Prometheus.
func (m *member) metrics() (map[string]float64, error) {
	body, err := m.get("/metrics")
	if err != nil {
		return nil, err
	}
	values := map[string]float64{}
	for line := range strings.Lines(string(body)) {
		name, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		if value, err := strconv.ParseFloat(text, 64); err == nil {
			values[name] = value
		}
	}
	return values, nil
}

// get asks a process over HTTP.
func (m *member) get(path string) ([]byte, error) {
	log, err := os.ReadFile(m.log())
	if err != nil {
		return nil, err
	}
	found := announcedURL.FindSubmatch(log)
	if found == nil {
		return nil, fmt.Errorf("its log %s does not say where it answers", m.log())
	}
	client := http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get(string(found[1]) + path)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("GET %s: %s", path, response.Status)
	}
	return io.ReadAll(response.Body)
}
