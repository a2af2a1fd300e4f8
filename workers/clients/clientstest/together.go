package clientstest

import (
	"errors"
	"math"
	"os"

	"coalmine/storage/safetensors"
)

type learnt struct {
	model  model
	result map[string]any
}

func (s *server) fitUsers(r *request) (start model, users []learnt, err error) {
	s.fits++
	if err := s.dieOnce(); err != nil {
		return model{}, nil, err
	}
	if start, err = s.read(r.Parameters); err != nil {
		return model{}, nil, err
	}
	for _, u := range r.Users {
		m, err := s.read(r.Parameters)
		if err != nil {
			return model{}, nil, err
		}
		tokens := s.tokens(u.Examples)
		loss, targets := s.train(&m, tokens)
		if s.Config.Fault == OtherMany {
			s.train(&m, tokens)
		}
		result, _ := s.fitted(len(u.Examples), loss, targets).(map[string]any)
		users = append(users, learnt{m, result})
	}
	if s.Config.Fault == FewerUsers {
		users = users[1:]
	}
	return start, users, nil
}

// dieOnce ends the process, unless an earlier one has left a file.
func (s *server) dieOnce() error {
	if s.Config.Fault != DiesOfMany || s.Config.Died == "" {
		return nil
	}
	f, err := os.OpenFile(s.Config.Died, os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	if err == nil {
		f.Close()
		os.Exit(137)
	}
	return err
}

func (s *server) fitMany(r *request) (any, error) {
	s.manies++
	_, users, err := s.fitUsers(r)
	if err != nil {
		return nil, err
	}
	results := []any{}
	for _, u := range users {
		results = append(results, u.result)
		if s.Config.Fault == NaN {
			u.model.weights[1] = float32(math.NaN())
		}
	}
	for i, path := range r.Files {
		from := min(i*r.PerFile, len(users))
		part := users[from:min(from+r.PerFile, len(users))]
		if s.Config.Fault == Stale && s.manies > 1 {
			continue
		}
		if s.Config.Fault == Device {
			return map[string]any{"users": results}, os.Symlink("/dev/zero", path)
		}
		if err := writeStack(path, part, r.Stamp); err != nil {
			return nil, err
		}
	}
	return map[string]any{"users": results}, nil
}

// writeStack writes the parameters of users with a leading axis for the user.
func writeStack(path string, users []learnt, stamp string) error {
	var stacked []safetensors.Tensor
	for i, u := range users {
		for j, t := range tensorsOf(u.model) {
			if i == 0 {
				stacked = append(stacked, safetensors.Tensor{Name: t.Name, Shape: append([]int{len(users)}, t.Shape...)})
			}
			stacked[j].Float32 = append(stacked[j].Float32, t.Float32...)
		}
	}
	return writeTensors(path, stacked, stamp)
}

func writeTensors(path string, tensors []safetensors.Tensor, stamp string) error {
	data, err := safetensors.Marshal(tensors, map[string]string{"stamp": stamp})
	if err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o600)
}

func (s *server) sum(r *request) (any, error) {
	if s.Config.Fault == Diverges {
		return nil, errDiverged
	}
	start, users, err := s.fitUsers(r)
	if err != nil {
		return nil, err
	}
	total, results := tensorsOf(model{make([]float32, len(start.weights)), 0}), []any{}
	for i, u := range users {
		update := u.model.less(start)
		weight, norm := float64(len(r.Users[i].Examples)), norm(update)
		if r.Weights != nil {
			weight = r.Weights[i]
		}
		if r.Clip > 0 && s.Config.Fault != Unclipped {
			weight *= min(1, r.Clip/norm)
		}
		if s.Config.Fault == HalfSum {
			weight /= 2
		}
		for j, t := range tensorsOf(update) {
			for k, v := range t.Float32 {
				total[j].Float32[k] += float32(weight * float64(v))
			}
		}
		if u.result["norm"] = norm; s.Config.Fault == NoNorm {
			delete(u.result, "norm")
		}
		results = append(results, u.result)
	}
	return map[string]any{"users": results}, writeTensors(r.Into, total, r.Stamp)
}

// less returns the difference from another model.
func (m model) less(other model) model {
	d := model{make([]float32, len(m.weights)), m.scale - other.scale}
	for i := range d.weights {
		d.weights[i] = m.weights[i] - other.weights[i]
	}
	return d
}

func norm(m model) float64 {
	sum := float64(m.scale) * float64(m.scale)
	for _, w := range m.weights {
		sum += float64(w) * float64(w)
	}
	return math.Sqrt(sum)
}

// scoreTree scores the nodes of a tree, which are independent of each other.
func (s *server) scoreTree(r *request, logs []float64) any {
	answers := [][2]any{}
	for _, token := range r.Tree.Tokens {
		log := logs[token]
		if s.Config.Fault == WrongTree {
			log -= 1
		}
		answers = append(answers, [2]any{log, token == best(logs)})
	}
	if s.Config.Fault == ManyPairs {
		answers = append(answers, [2]any{-1, false})
	}
	return answers
}
