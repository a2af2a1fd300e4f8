package experiment

import (
	"fmt"
	"strings"

	"coalmine/storage"
	"coalmine/tasks/audits"
)

// SourceDigest returns data.sha256 of a source with these files, in their order: the SHA-256 of the
// only file, or of the files' SHA-256s, one per line. A shell computes it as
//
//	sha256sum DIRECTORY/*.jsonl | cut -c-64 | sha256sum
//
// It depends on the content of the files, not on their names.
func SourceDigest(files []storage.Digest) storage.Digest {
	if len(files) == 1 {
		return files[0]
	}
	var lines strings.Builder
	for _, f := range files {
		lines.WriteString(f.String() + "\n")
	}
	return storage.DigestOf([]byte(lines.String()))
}

// sourceOf records the files of a cell's source, and returns the digest of the source. Cells with
// the same source share the list.
func (s *Spec) sourceOf(files []storage.Digest) string {
	digest := SourceDigest(files).String()
	if len(files) == 1 {
		return digest
	}
	if s.Sources == nil {
		s.Sources = map[string][]storage.Digest{}
	}
	s.Sources[digest] = files
	return digest
}

// Files returns the digests of the files of a resolved cell's source, in reading order.
func (s *Spec) Files(d *Data) ([]storage.Digest, error) {
	return s.filesOf("data.sha256", d.SHA256)
}

// SecondFiles returns the digests for the additional sources of the data block, empty for absent
// ones.
func (s *Spec) SecondFiles(d *Data) (files SecondFiles, err error) {
	for i, second := range d.SecondSources() {
		if second.Of == nil {
			continue
		}
		if files[i], err = s.filesOf(second.Path+".sha256", second.Of.SHA256); err != nil {
			return files, err
		}
	}
	return files, nil
}

// AuditFiles returns the digests for the sources of audits, by path.
func (s *Spec) AuditFiles(e *Experiment) (map[string][]storage.Digest, error) {
	all := map[string][]storage.Digest{}
	for _, x := range e.AuditSources() {
		files, err := s.filesOf(x.Path+".sha256", *x.SHA256)
		if err != nil {
			return nil, err
		}
		all[x.Path] = files
	}
	return all, nil
}

// AuditSources returns the sources of audits, in the order of the audits.
func (e *Experiment) AuditSources() (list []audits.Source) {
	for _, m := range e.Audit.Asked() {
		if m.Sources != nil {
			list = append(list, m.Sources(m.Fields)...)
		}
	}
	return list
}

// beside is an additional source.
type beside struct {
	path, source string
	sha256       *string
	files        []storage.Digest
}

// besides returns the second sources and those of audits, with their files from f.
func (e *Experiment) besides(f *Facts) (list []beside) {
	for j, second := range e.Data.SecondSources() {
		if source := second.Of; source != nil {
			list = append(list, beside{second.Path, source.Source, &source.SHA256, f.Second[j]})
		}
	}
	for _, x := range e.AuditSources() {
		list = append(list, beside{x.Path, x.Source, x.SHA256, f.OfAudits[x.Path]})
	}
	return list
}

func (s *Spec) filesOf(path, sha256 string) ([]storage.Digest, error) {
	digest, err := storage.ParseDigest(sha256)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; submit the experiment, which fills it in", path, err)
	}
	files, several := s.Sources[sha256]
	if !several {
		return []storage.Digest{digest}, nil
	}
	if SourceDigest(files) != digest {
		return nil, fmt.Errorf("%s %s is not that of the %d files that are recorded for it; submit the experiment again", path, digest.Short(), len(files))
	}
	return files, nil
}
