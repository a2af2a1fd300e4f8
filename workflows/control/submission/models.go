package submission

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"coalmine/internal/readable"
	"coalmine/models"
	"coalmine/storage"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/datasets"
	"coalmine/tasks/datasets/source"
	"coalmine/tasks/datasets/subwords"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/pretrained"
	"coalmine/workflows/data/sources"
	"coalmine/workflows/experiment"
	"coalmine/workflows/plan/compile"
)

// readModels reads each pretrained model once, and sets the network of every cell that names it. The
// checkpoint, in float32, stays in memory until it is uploaded.
func (s *Submission) readModels(ctx context.Context, finder sources.Finder) error {
	type named struct{ folder, sha256 string }
	known := map[named]*readModel{}
	for i := range s.Spec.Cells {
		c := &s.Spec.Cells[i]
		m := &c.Experiment.Model
		if m.Pretrained == "" {
			continue
		}
		name := named{m.Pretrained, m.PretrainedSHA256}
		if known[name] == nil {
			found, err := s.readModel(ctx, finder, name.folder, name.sha256)
			if err != nil {
				return fmt.Errorf("%s: %w", c.Where("model.pretrained"), err)
			}
			known[name] = found
		}
		if err := known[name].begin(c); err != nil {
			return err
		}
	}
	return nil
}

// readModel is a pretrained model. network is empty if only the checkpoint is known.
type readModel struct {
	network models.Config
	digest  storage.Digest
}

// begin sets the network of a cell to that of the model.
func (r *readModel) begin(c *experiment.Cell) error {
	if r.network == (models.Config{}) {
		return nil // the experiment file has the sizes
	}
	if d := &c.Experiment.Data; d.Tokens() != r.network.Vocabulary {
		return fmt.Errorf("%s: is %d; expected %[4]d, the number of tokens in the tokenizer.json of %[3]s", c.Where("data.vocabulary.size"), d.Vocabulary.Size, c.Experiment.Model.Pretrained, r.network.Vocabulary-text.FirstWord)
	}
	return c.Experiment.Model.Begin(r.network, r.digest)
}

func (s *Submission) readModel(ctx context.Context, finder sources.Finder, name, sha256 string) (*readModel, error) {
	finds, ok := finder.(sources.ModelFinder)
	if !ok {
		return nil, fmt.Errorf("%s: this server does not read pretrained models; expected an experiment without model.pretrained", name)
	}
	from, uploaded, err := finds.FindModel(ctx, name, sha256)
	if err != nil {
		return nil, err
	}
	if uploaded != nil {
		s.sources = append(s.sources, uploaded)
		return new(readModel), nil
	}
	folder, err := pretrained.Open(from, name)
	if err != nil {
		return nil, err
	}
	network, params, err := folder.Initial()
	if err := errors.Join(err, folder.Close()); err != nil {
		return nil, err
	}
	file, err := checkpoints.Encode(network, params, nil)
	if err != nil {
		return nil, err
	}
	digest := storage.DigestOf(file)
	if sha256 != "" && sha256 != digest.String() {
		return nil, fmt.Errorf("the checkpoint of %s has the SHA-256 %s, but model.pretrained_sha256 is %s; restore the folder, or correct the field", name, digest, sha256)
	}
	s.sources = append(s.sources, sources.InMemory(name, file))
	return &readModel{network.Config(), digest}, nil
}

// auditSource identifies a source of an audit that cells share.
type auditSource struct {
	path, source, sha256 string
	limits               source.Limits
}

// surveyAudits reads each source that audits name, once for all cells that read it in the same way, and
// records the digests of its files.
func (s *Submission) surveyAudits(ctx context.Context, finder sources.Finder, facts []experiment.Facts) error {
	known := map[auditSource][]storage.Digest{}
	for i := range s.Spec.Cells {
		c := &s.Spec.Cells[i]
		facts[i].OfAudits = map[string][]storage.Digest{}
		for _, x := range c.Experiment.AuditSources() {
			name := auditSource{x.Path, x.Source, *x.SHA256, compile.Limits(&c.Experiment)}
			if known[name] == nil {
				source, err := finder.Find(ctx, x.Source, *x.SHA256)
				if err != nil {
					return fmt.Errorf("%s: %w", c.Where(x.Path+".source"), err)
				}
				if err := source.Read(ctx, name.limits, x.Check); err != nil {
					return fmt.Errorf("%s: %w", c.Where(x.Path), err)
				}
				known[name] = source.Digests()
				s.sources = append(s.sources, source)
			}
			facts[i].OfAudits[x.Path] = known[name]
		}
	}
	return nil
}

// readSecond identifies a second source that cells share.
type readSecond struct {
	source, sha256 string
	limits         source.Limits
	reading        source.Reading
}

// second is a second source that was read.
type second struct {
	files []storage.Digest
	facts datasets.Facts
}

// surveySecond reads each second source once, for all cells that read it in the same way,
// and records the digests of its files.
func (s *Submission) surveySecond(ctx context.Context, finder sources.Finder, facts []experiment.Facts) error {
	known := map[readSecond]*second{}
	for i := range s.Spec.Cells {
		e := &s.Spec.Cells[i].Experiment
		for place, named := range e.Data.SecondSources() {
			if named.Of == nil {
				continue
			}
			r := s.tokenizing(compile.SecondRecipe(e, named.Of))
			name := readSecond{named.Of.Source, named.Of.SHA256, compile.Limits(e), r.Reading}
			if known[name] == nil {
				found, err := s.readSecond(ctx, finder, &s.Spec.Cells[i], named, r)
				if err != nil {
					return err
				}
				known[name] = found
			}
			facts[i].Second[place] = known[name].files
			facts[i].Rules = max(facts[i].Rules, known[name].facts.Rules)
			if place == experiment.ProfilesSource {
				facts[i].AddProfiles(known[name].facts.Source)
			}
		}
	}
	return nil
}

// readSecond finds and surveys a source that a cell names.
func (s *Submission) readSecond(ctx context.Context, finder sources.Finder, c *experiment.Cell, named experiment.NamedSource, r datasets.Recipe) (*second, error) {
	source, err := finder.Find(ctx, named.Of.Source, named.Of.SHA256)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Where(named.Path+".source"), err)
	}
	facts, err := source.Survey(ctx, compile.Limits(&c.Experiment), []datasets.Recipe{r})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Where(named.Path), err)
	}
	s.sources = append(s.sources, source)
	s.count(source.Digests(), &r, &facts[0])
	return &second{source.Digests(), facts[0]}, nil
}

// packing packs the code of external trainings, once for all cells and roles with the same files.
type packing struct {
	*Submission
	finder sources.Finder
	known  map[string]storage.Digest
}

// packCode packs the code for each role, and records the digests.
func (s *Submission) packCode(ctx context.Context, finder sources.Finder, facts []experiment.Facts) error {
	p := packing{s, finder, map[string]storage.Digest{}}
	for i := range s.Spec.Cells {
		c := &s.Spec.Cells[i]
		t := &c.Experiment.Training
		directory, digest := t.CodeOf()
		if directory == "" {
			continue
		}
		var err error
		if facts[i].Code, err = p.pack(ctx, c, t.TrainedBy(), *digest); err != nil {
			return err
		}
		if facts[i].Scorer, err = p.pack(ctx, c, experiment.ScorerCode, t.ScorerSHA256); err != nil {
			return err
		}
	}
	return nil
}

// pack packs the files of a role of a cell.
func (p *packing) pack(ctx context.Context, c *experiment.Cell, role experiment.CodeRole, digest string) (storage.Digest, error) {
	t := &c.Experiment.Training
	if role == experiment.ScorerCode && !t.ScorerApart() {
		return storage.Digest{}, nil // the scorer uses the code of the training
	}
	directory, _ := t.CodeOf()
	name := strings.Join([]string{directory, digest, fmt.Sprintf("%d %+v", role, t.CodeRoles)}, "\n")
	if found, packed := p.known[name]; packed {
		return found, nil
	}
	var files []string
	source, err := sources.Pack(ctx, p.finder, directory, digest, func(file string) bool {
		files = append(files, file)
		return t.CodeRoles.Omits(role, file)
	})
	if err != nil {
		return storage.Digest{}, fmt.Errorf("%s: %w", c.Where("training.code"), err)
	}
	if unmatched := t.CodeRoles.Unmatched(files); len(files) > 0 && len(unmatched) > 0 {
		return storage.Digest{}, fmt.Errorf("%s: no file of %s is named %q; it has %s", c.Where("training.code_roles"), t.Code, unmatched[0], strings.Join(files[:min(len(files), 20)], ", "))
	}
	p.known[name] = source.Digests()[0]
	if !slices.ContainsFunc(p.sources, func(s *sources.Source) bool { return s.Name == source.Name && s.Digests()[0] == p.known[name] }) {
		p.sources = append(p.sources, source)
	}
	return p.known[name], nil
}

// maxTokenizer is the maximum size of a file tokenizer.json, in bytes. That of Llama 3 has 9 million.
const maxTokenizer = 64 << 20

// readTokenizers reads each tokenizer once, and records its digest and the canaries' words in
// all cells that name it.
func (s *Submission) readTokenizers(ctx context.Context, finder sources.Finder) error {
	s.tokenizers = map[storage.Digest]*subwords.Tokenizer{}
	type named struct{ path, sha256 string }
	type found struct {
		digest storage.Digest
		words  []string
	}
	known := map[named]found{}
	for i := range s.Spec.Cells {
		c := &s.Spec.Cells[i]
		d := &c.Experiment.Data
		if d.Tokenizer == "" {
			continue
		}
		name := named{d.Tokenizer, d.TokenizerSHA256}
		if _, ok := known[name]; !ok {
			digest, err := s.readTokenizer(ctx, finder, d)
			if err != nil {
				return fmt.Errorf("%s: %w", c.Where("data.tokenizer"), err)
			}
			words, _ := s.tokenizers[digest].Words() // without words, canaries need symbols
			known[name] = found{digest, words}
		}
		d.TokenizerSHA256 = known[name].digest.String()
		if err := c.Experiment.ListCanaryWords(known[name].words); err != nil {
			return fmt.Errorf("%s: %w", c.Where("canaries"), err)
		}
	}
	return nil
}

func (s *Submission) readTokenizer(ctx context.Context, finder sources.Finder, d *experiment.Data) (digest storage.Digest, err error) {
	source, err := findTokenizer(ctx, finder, d)
	if err != nil {
		return digest, err
	}
	data, err := readFile(ctx, source)
	if err != nil {
		return digest, err
	}
	tokenizer, err := subwords.Parse(data)
	if err != nil {
		return digest, fmt.Errorf("%s: %w", d.Tokenizer, err)
	}
	digest = source.Digests()[0]
	if given := d.TokenizerSHA256; given != "" && given != digest.String() {
		return digest, fmt.Errorf("%s has the SHA-256 %s, but data.tokenizer_sha256 is %s; restore the file, or correct the field", d.Tokenizer, digest, given)
	}
	s.sources, s.tokenizers[digest] = append(s.sources, source), tokenizer
	return digest, nil
}

// findTokenizer finds the file of a tokenizer. If the experiment names a folder that contains one, the
// error names the file.
func findTokenizer(ctx context.Context, finder sources.Finder, d *experiment.Data) (*sources.Source, error) {
	source, err := finder.Find(ctx, d.Tokenizer, d.TokenizerSHA256)
	if err == nil && len(source.Files) == 1 {
		return source, nil
	}
	inside := strings.TrimSuffix(d.Tokenizer, "/") + "/tokenizer.json"
	if _, inner := finder.Find(ctx, inside, ""); inner == nil {
		return nil, fmt.Errorf("%s is a folder; expected its file %s", d.Tokenizer, inside)
	}
	if err != nil {
		return nil, fmt.Errorf("expected a file tokenizer.json: %w", err)
	}
	return nil, fmt.Errorf("%s has %s; expected one file tokenizer.json", d.Tokenizer, readable.Count(len(source.Files), "file"))
}

// readFile reads the only file of a source.
func readFile(ctx context.Context, src *sources.Source) (data []byte, err error) {
	err = src.Read(ctx, source.Limits{}, func(_ context.Context, files []source.File, _ source.Limits) error {
		body, err := files[0].Open()
		if err != nil {
			return err
		}
		defer body.Close()
		data, err = io.ReadAll(io.LimitReader(body, maxTokenizer+1))
		return err
	})
	if err == nil && len(data) > maxTokenizer {
		err = fmt.Errorf("%s has more than %d bytes; expected a file tokenizer.json", src.Name, maxTokenizer)
	}
	return data, err
}

// tokenizing returns a recipe with its tokenizer.
func (s *Submission) tokenizing(r datasets.Recipe) datasets.Recipe {
	r.Reading = r.WithTokenizer(s.tokenizers[r.Tokenizer])
	return r
}
