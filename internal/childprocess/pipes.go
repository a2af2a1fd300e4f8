package childprocess

import (
	"io"
	"os"
	"sync"
	"time"
)

// pipes carry what a command says. They outlive its first process, unlike those of os/exec: what
// that has started may still have something to say, and would be killed by saying it to nobody.
type pipes struct {
	read, written []*os.File
	copying       sync.WaitGroup
}

// to makes a pipe whose bytes are written to w.
func (p *pipes) to(w io.Writer) (*os.File, error) {
	from, into, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p.read, p.written = append(p.read, from), append(p.written, into)
	p.copying.Go(func() { _, _ = io.Copy(w, from) }) // w takes all, or its reader has gone
	return into, nil
}

// started lets go of the ends that are the command's.
func (p *pipes) started() {
	for _, f := range p.written {
		f.Close()
	}
}

// drain takes what has been said and closes the pipes, after a moment if a process holds them open.
func (p *pipes) drain() {
	late := time.AfterFunc(drain, p.close)
	defer late.Stop()
	p.copying.Wait()
	p.close()
}

func (p *pipes) close() {
	for _, f := range p.read {
		f.Close()
	}
}
