package clients

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"coalmine/internal/childprocess"
	"coalmine/internal/contracts"
	"coalmine/internal/kernels"
	"coalmine/tasks"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/clientprograms"
)

// together holds the state shared by the requests for several users. Their files keep their names, so that
// a program can overwrite the pages of the previous one; the stamps distinguish them.
type together struct {
	stamps int
	stack  checkpoints.Stack
	buffer []byte
}

// maxStacked is the maximum number of bytes of parameters in a file of several users, unless one user
// exceeds it.
const maxStacked = 64 << 20

// fits returns an error if the users of a request do not fit the memory of the program.
func (c *program) fits() error {
	m, limit := c.description.Together, c.terms().Memory
	if m == nil || m.Memory == 0 || limit == 0 || m.Memory <= limit/int64(m.Users) {
		return nil
	}
	return tasks.Permanent(fmt.Errorf("program %q trains %d users at once, of %d bytes each, and may use %d MiB of memory; lower its number of users in training.job, or raise training.limits.memory",
		c.setting.Command, m.Users, m.Memory, limit>>20))
}

// many returns a request for several users.
func (c *program) many(path string, w *clientprograms.ManyWork) request {
	c.together.stamps++
	about := request{Parameters: path, Round: w.Round, Stamp: strconv.Itoa(c.together.stamps), LearningRate: w.LearningRate, LargestLoss: w.LargestLoss}
	for _, u := range w.Users {
		about.Users = append(about.Users, userWork{Examples: c.examples(u.Examples), Seed: u.Seed, Batches: u.Batches})
	}
	return about
}

func (c *program) FitMany(ctx context.Context, w clientprograms.ManyWork, each func(int, *clientprograms.Fitted, []float32) error) error {
	path, letGo, err := c.files.hold(ctx, w.Model)
	if err != nil {
		return err
	}
	defer letGo()
	about := c.many(path, &w)
	about.PerFile = max(1, maxStacked/(4*c.network.Trained()))
	for from := 0; from < len(w.Users); from += about.PerFile {
		about.Files = append(about.Files, filepath.Join(c.directory, fmt.Sprintf("many-%d.safetensors", from/about.PerFile)))
	}
	var refused error
	err = c.train(ctx, fitMany, fmt.Sprintf("fit_many, %d users", len(w.Users)), len(w.Users), &about, func(result json.RawMessage) error {
		fitted, err := decodeUsers(result, w.Users, FilesOfMany)
		if err != nil {
			return err
		}
		refused, err = c.readMany(&about, fitted, each)
		return err
	})
	if err == nil {
		err = refused
	}
	return err
}

// readMany calls each with the parameters of every user in turn. refused is its error, err that of a file.
func (c *program) readMany(about *request, users []clientprograms.Summed, each func(int, *clientprograms.Fitted, []float32) error) (refused, err error) {
	params := make([]float32, c.network.Trained())
	for i := range users {
		file, at := i/about.PerFile, i%about.PerFile
		if at == 0 {
			if err := c.readStack(about.Files[file], min(about.PerFile, len(users)-i), about.Stamp, FilesOfMany); err != nil {
				return nil, err
			}
		}
		c.together.stack.Copy(c.network, at, params)
		if err := each(i, &users[i].Fitted, params); err != nil {
			return err, nil
		}
	}
	return nil, nil
}

// readStack reads a file of the parameters of several users; with users 0 there is no leading axis.
func (c *program) readStack(path string, users int, stamp string, rule contracts.Rule) error {
	size := max(1, users) * c.network.Trained()
	f, length, err := childprocess.OpenFile(path, int64(4*size)+headerRoom)
	if err != nil {
		return unreadable(err, size)
	}
	defer f.Close()
	metadata, err := c.together.stack.Read(c.network, users, length, c.readAt(f))
	if err != nil {
		return misshapen(err, rule)
	}
	if metadata["stamp"] != stamp {
		return rule.Errorf("its file %s has the stamp %.100q; expected %q, the stamp of the request", filepath.Base(path), metadata["stamp"], stamp)
	}
	return nil
}

// readAt reads parts of a file into memory that the next part overwrites.
func (c *program) readAt(f *os.File) func(offset, length int64) ([]byte, error) {
	return func(offset, length int64) ([]byte, error) {
		c.together.buffer = slices.Grow(c.together.buffer[:0], int(length))[:length]
		_, err := f.ReadAt(c.together.buffer, offset)
		return c.together.buffer, err
	}
}

func (c *program) Sum(ctx context.Context, w clientprograms.ManyWork, clip float64, weights []float64, into []float32) (users []clientprograms.Summed, err error) {
	path, letGo, err := c.files.hold(ctx, w.Model)
	if err != nil {
		return nil, err
	}
	defer letGo()
	about := c.many(path, &w)
	about.Into, about.Clip, about.Weights = filepath.Join(c.directory, "sum.safetensors"), clip, weights
	err = c.train(ctx, sum, fmt.Sprintf("sum, %d users", len(w.Users)), len(w.Users), &about, func(result json.RawMessage) error {
		if users, err = decodeUsers(result, w.Users, SumOfMany); err != nil {
			return err
		}
		if err := c.readStack(about.Into, 0, about.Stamp, SumOfMany); err != nil {
			return err
		}
		c.together.stack.Copy(c.network, 0, into)
		return checkSum(users, clip, weights, into)
	})
	return users, err
}

// checkSum returns an error for a sum longer than the total length of its terms.
func checkSum(users []clientprograms.Summed, clip float64, weights []float64, sum []float32) error {
	most := 0.0
	for i, u := range users {
		weight, norm := float64(u.Examples), u.Norm
		if weights != nil {
			weight = weights[i]
		}
		if clip > 0 {
			norm = min(norm, clip)
		}
		most += float64(weight * norm)
	}
	if norm := math.Sqrt(kernels.SquaredNorm(sum)); !(norm <= most*(1+rounding)) {
		return SumOfMany.Errorf("its sum has the norm %g; expected at most %g, the sum of the users' weighted norms, each clipped to %g", norm, most, clip)
	}
	return nil
}

// rounding is the relative error of a norm in 32-bit floats.
const rounding = 1e-4

// decodeUsers checks the results for several users; only results of a sum have norms.
func decodeUsers(result json.RawMessage, given []clientprograms.User, rule contracts.Rule) ([]clientprograms.Summed, error) {
	var answer struct{ Users []json.RawMessage }
	if err := json.Unmarshal(result, &answer); err != nil || len(answer.Users) != len(given) {
		return nil, rule.Errorf("it answered with %s, %d users; expected a result for each of %d", contracts.Quote(result), len(answer.Users), len(given))
	}
	users := make([]clientprograms.Summed, len(given))
	for i, user := range answer.Users {
		fitted, err := decodeFitted(user, len(given[i].Examples))
		if err != nil {
			return nil, fmt.Errorf("user %d of %d: %w", i+1, len(given), err)
		}
		users[i].Fitted = *fitted
		var fields struct{ Norm *float64 }
		if err := json.Unmarshal(user, &fields); rule == SumOfMany && (err != nil || fields.Norm == nil || !(*fields.Norm >= 0)) {
			return nil, rule.Errorf("the result of user %d of %d is %s; expected a norm of at least 0", i+1, len(given), contracts.Quote(user))
		}
		if fields.Norm != nil {
			users[i].Norm = *fields.Norm
		}
	}
	return users, nil
}
