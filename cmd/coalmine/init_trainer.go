package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"time"

	"coalmine/clients/python"
	"coalmine/internal/tempfiles"
	"coalmine/workflows/experiment"
	"coalmine/workflows/standalone/starter"
)

const (
	trainerFolder = "trainer"
	// programEpochs is the number of epochs of a program. If they take too long on all data, the program trains on
	// a fraction or, if its speed is unknown, on unmeasuredTexts texts.
	programEpochs   = 5
	unmeasuredTexts = 2000
	// programTried is the percentage of the data that is timed, in addition to all data, to fit the fraction.
	programTried = 10
)

// checkTrainer rejects flags that do not apply to programs.
func (f *initFlags) checkTrainer() error {
	switch {
	case f.trainer == "":
		return nil
	case f.trainer != "torch":
		return fmt.Errorf("--trainer %q: expected torch; for other programs see docs/contracts", f.trainer)
	case f.private && f.algorithm != "fedavg":
		return errors.New("--private and --trainer: expected also --algorithm fedavg, because the program itself takes the steps of a central training")
	}
	return nil
}

// addTrainer adds the experiment file and the training programs around the user's module or an example of one.
func (g *global) addTrainer(ctx context.Context, p *starter.Proposal, f *initFlags, o *outputs) error {
	base := filepath.Dir(o.experiment)
	folder := filepath.Join(base, trainerFolder)
	programs, err := trainerPrograms(folder, f.force || f.onlyShow)
	if err != nil {
		return err
	}
	if p, err = g.fitProgram(ctx, p, f.time, base, programs); err != nil {
		return err
	}
	o.text = p.Text()
	if _, err := experiment.Parse(o.experiment, o.text, experiment.Options{}); err != nil {
		return err
	}
	for name, text := range programs {
		o.beside[filepath.Join(folder, name)] = text
	}
	at := filepath.ToSlash(folder)
	o.notes = append(o.notes, fmt.Sprintf("the module is %s; to check the programs around it:", path.Join(at, python.ModelFile)))
	for _, contract := range []string{
		fmt.Sprintf("score --command \"python3 %s/scorer.py\"", at), fmt.Sprintf("train --command \"python3 trainer.py\" --code %s", at),
		fmt.Sprintf("client --command \"python3 %s/client.py\"", at),
	} {
		o.notes = append(o.notes, "  coalmine contract check "+contract)
	}
	return nil
}

// trainerPrograms returns the files to write into a folder, by name, except an existing module.
func trainerPrograms(folder string, replace bool) (map[string][]byte, error) {
	files, err := python.Starter()
	if err != nil {
		return nil, err
	}
	programs := map[string][]byte{}
	for name, text := range files {
		name = filepath.FromSlash(name)
		file := filepath.Join(folder, name)
		if name == python.ModelFile {
			if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
				continue // the user's own module
			}
		} else if err := mayWriteFile(file, replace); err != nil {
			return nil, err
		}
		programs[name] = text
	}
	return programs, nil
}

// fitProgram chooses the fraction of the data on which the programs train within a time. It measures
// their speed in a copy of the folder trainer in base.
func (g *global) fitProgram(ctx context.Context, p *starter.Proposal, budget time.Duration, base string, programs map[string][]byte) (*starter.Proposal, error) {
	code, err := tempfiles.MakeDirectory("", "init-")
	if err != nil {
		return nil, err
	}
	defer code.Remove()
	if err := copyCode(code.Path, filepath.Join(base, trainerFolder), programs); err != nil {
		return nil, err
	}
	here := *p
	here.Code = code.Path
	sub, err := g.prepareProposed(ctx, here.Text(), base)
	if err != nil {
		return nil, err
	}
	speed := g.programs(ctx, sub, true)
	if why := lacksTorch(ctx); why != "" {
		g.note("%s, so a run would fail: install PyTorch, or put a python3 that has it first in PATH; then repeat the command with --force, which measures the speed of the programs and chooses data.share (now for at most about %d texts)", why, unmeasuredTexts)
		return p.With(ctx, programEpochs, p.PercentOf(unmeasuredTexts))
	}
	if speed(0) == nil {
		g.note("the experiment trains on at most about %d texts (data.share), because the speed of the programs is unknown; repeat the command with --force to measure it, once %s works and the machine is idle", unmeasuredTexts, python.ModelFile)
		return p.With(ctx, programEpochs, p.PercentOf(unmeasuredTexts))
	}
	seconds := func(percent int) (*starter.Proposal, float64, error) {
		with, err := here.With(ctx, programEpochs, percent)
		if err != nil {
			return nil, 0, err
		}
		s, err := g.secondsOf(ctx, with.Text(), base, speed)
		return with, s, err
	}
	fitted, took, err := seconds(100)
	if least := p.PercentOf(starter.MinTexts); err == nil && took > budget.Seconds() && least < 100 {
		tried := max(programTried, least)
		var few float64
		if _, few, err = seconds(tried); err == nil {
			fitted, took, err = seconds(fittingPercent(took, few, tried, least, budget.Seconds()))
		}
	}
	if err != nil {
		return nil, err
	}
	g.recordTime(fitted, took, budget)
	fitted.Code = p.Code
	return fitted, nil
}

// lacksTorch returns the reason if the python3 that runs the programs has no PyTorch.
func lacksTorch(ctx context.Context) string {
	python, err := exec.LookPath("python3")
	if err != nil {
		return "PATH has no python3 with PyTorch"
	}
	var ended *exec.ExitError
	if err := exec.CommandContext(ctx, python, "-c", "import importlib.util as u; exit(u.find_spec('torch') is None)").Run(); errors.As(err, &ended) && ended.ExitCode() == 1 {
		return python + " has no PyTorch"
	}
	return ""
}

// fittingPercent returns the percentage of the data that takes a budget of seconds, at least least. It
// interpolates linearly between the times of the percentage tried and of all data.
func fittingPercent(all, few float64, tried, least int, budget float64) int {
	each := max(all-few, all*1e-3) / float64(100-tried)
	return int(max(float64(least), min(100, float64(tried)+(budget-few)/each)))
}

// copyCode copies a folder, if it exists, and adds programs to the copy.
func copyCode(to, folder string, programs map[string][]byte) error {
	if _, err := os.Stat(folder); err == nil {
		if err := os.CopyFS(to, os.DirFS(folder)); err != nil {
			return err
		}
	}
	for name, text := range programs {
		if err := writeWhole(filepath.Join(to, name), text); err != nil {
			return err
		}
	}
	return nil
}
