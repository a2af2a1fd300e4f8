package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/internal/testserver"
)

var (
	// fileBlock is the content of a file, after the sentence that names it.
	fileBlock = regexp.MustCompile("(?s)as `([\\w./-]+)`:\n\n```(?:yaml|python)\n(.*?)```")
	shBlock   = regexp.MustCompile("(?s)```sh\n(.*?)```")
	textBlock = regexp.MustCompile("(?s)```text\n(.*?)```")
	aPort     = regexp.MustCompile(`\b(6390|8090)\b`)
)

// tutorial is a page whose files and commands are run as they stand.
type tutorial struct{ page, dir string }

// openTutorial writes the files of a page to a directory beside the folders of a clone that it names.
func openTutorial(t *testing.T, name string) tutorial {
	t.Helper()
	testserver.WithoutRace(t)
	for _, program := range []string{"bash", "curl"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(err)
		}
	}
	page := contentOf(t, "../../docs/tutorials/"+name+".md")
	tut := tutorial{page: page, dir: t.TempDir()}
	for _, folder := range []string{"examples", "clients"} {
		path, err := filepath.Abs("../../" + folder)
		if err == nil {
			err = os.Symlink(path, filepath.Join(tut.dir, folder))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range fileBlock.FindAllStringSubmatch(page, -1) {
		path := filepath.Join(tut.dir, file[1])
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o700))
		writeFile(t, path, file[2])
	}
	return tut
}

// run executes the commands of the page in one shell, on free ports, and returns their output.
func (tut *tutorial) run(t *testing.T) string {
	t.Helper()
	program := must.Get(os.Executable())(t)
	bin := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(bin, "coalmine"), []byte("#!/bin/sh\n"+asCommand+"=1 exec "+program+" \"$@\"\n"), 0o700))
	script := "set -e\ntrap 'kill $(jobs -p) 2> jobs.log || true; wait' EXIT\n"
	for _, block := range shBlock.FindAllStringSubmatch(tut.page, -1) {
		script += block[1]
	}
	ports := map[string]string{"6390": freePort(t), "8090": freePort(t)}
	script = aPort.ReplaceAllStringFunc(script, func(port string) string { return ports[port] })
	c := exec.CommandContext(t.Context(), "bash", "-c", script)
	c.Dir, c.Env = tut.dir, append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
	output, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	return string(output)
}

// prints checks that the output contains each line of the blocks of text of the page.
func (tut *tutorial) prints(t *testing.T, output string) {
	t.Helper()
	for _, block := range textBlock.FindAllStringSubmatch(tut.page, -1) {
		for line := range strings.Lines(block[1]) {
			if !strings.Contains(output, strings.TrimSpace(line)) {
				t.Errorf("the page shows\n%s\nwhich is not in\n%s", line, output)
			}
		}
	}
}

func freePort(t *testing.T) string {
	t.Helper()
	listener := must.Get(net.Listen("tcp", "localhost:0"))(t)
	defer listener.Close()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	return port
}

func TestTutorialsRunAsWritten(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"memorization", "own-model", "team"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tut := openTutorial(t, name)
			if name == "team" {
				testserver.RedisServer(t) // or the test is skipped
			}
			tut.prints(t, tut.run(t))
		})
	}
}
