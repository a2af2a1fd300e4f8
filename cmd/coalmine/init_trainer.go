package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"coalmine/clients/python"
	"coalmine/workflows/experiment"
	"coalmine/workflows/standalone/starter"
)

const (
	trainerFolder = "trainer"
	// programEpochs are those of a program, whose speed nobody has measured.
	programEpochs = 5
)

// checkTrainer refuses flags that a program does not follow.
func (f *initFlags) checkTrainer() error {
	switch {
	case f.trainer == "":
		return nil
	case f.trainer != "torch":
		return fmt.Errorf("--trainer %q: expected torch; other programs speak the contracts in docs/contracts", f.trainer)
	case f.set.Changed("time"):
		return errors.New("--time and --trainer: expected one of them; coalmine plan measures how fast the program is")
	case f.private && f.algorithm != "fedavg":
		return errors.New("--private and --trainer: expected --algorithm fedavg, too, since the program itself does the steps of a central training")
	}
	return nil
}

// addTrainer adds the programs that train, around the module that is there or an example of one.
func (o *outputs) addTrainer(p *starter.Proposal, f *initFlags) error {
	o.text = p.Text()
	if _, err := experiment.Parse(o.experiment, o.text, experiment.Options{}); err != nil {
		return err
	}
	files, err := python.Starter()
	if err != nil {
		return err
	}
	folder := filepath.Join(filepath.Dir(o.experiment), trainerFolder)
	for name, text := range files {
		file := filepath.Join(folder, filepath.FromSlash(name))
		if name == python.ModelFile {
			if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
				continue // a module of somebody's own
			}
		} else if err := mayWriteFile(file, f.force || f.onlyShow); err != nil {
			return err
		}
		o.beside[file] = text
	}
	at := filepath.ToSlash(folder)
	o.notes = append(o.notes, fmt.Sprintf("the module is %s; check the programs around it by", path.Join(at, python.ModelFile)))
	for _, contract := range []string{
		fmt.Sprintf("score --command \"python3 %s/scorer.py\"", at), fmt.Sprintf("train --command \"python3 trainer.py\" --code %s", at),
		fmt.Sprintf("client --command \"python3 %s/client.py\"", at),
	} {
		o.notes = append(o.notes, "  coalmine contract check "+contract)
	}
	return nil
}
