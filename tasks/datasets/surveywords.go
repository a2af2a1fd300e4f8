package datasets

import "context"

// selectWords sets the facts of the recipes that select words. It reads the source once more,
// because a vocabulary is known only after the whole source.
func (s *surveyor) selectWords(ctx context.Context, recipes []*recipeSurvey, facts []Facts) error {
	following := map[*readText][]*recipeSurvey{}
	for _, r := range recipes {
		if r.recipe.selects() {
			r.begin()
			following[r.text] = append(following[r.text], r)
		}
	}
	if len(following) == 0 {
		return nil
	}
	if err := s.readWords(ctx, following); err != nil {
		return err
	}
	for i, r := range recipes {
		if r.recipe.selects() {
			facts[i] = r.facts()
		}
	}
	return nil
}

// readWords reads the source for recipes that select words, by the text that they select from.
func (s *surveyor) readWords(ctx context.Context, following map[*readText][]*recipeSurvey) error {
	for t := range following {
		t.lexicon.restart()
	}
	for record, err := range s.content().Records(ctx, s.files, s.limits) {
		if err != nil {
			return err
		}
		user := int(s.names.id([]byte(record.User)))
		group := s.group(user, &record)
		for t, recipes := range following {
			words, _ := t.lexicon.sentence(user, record.Text)
			for _, r := range recipes {
				r.addWords(user, record.part, words, group)
			}
		}
	}
	return nil
}

// addWords counts the words outside the vocabulary of one sentence of a split. group is the group
// of the sentence, if it has one.
func (r *recipeSurvey) addWords(user int, split partNumber, words, group []uint32) {
	r.users = resized(r.users, user+1)
	part := r.coins.next().within(split)
	for _, w := range words {
		if n := r.outside[w]; n > 0 {
			r.addOne(part, user, int(n), group)
		}
	}
}

// addOne counts one example in its part and in its group, if it has one.
func (r *recipeSurvey) addOne(part partNumber, user, words int, group []uint32) {
	u := &r.users[user]
	r.counts[part].addExample(words)
	u.in[part] = true
	if part != train {
		return
	}
	for _, g := range group {
		r.addGroup(user, g)
	}
	u.words, u.examples = u.words+int64(words), u.examples+1
	if size := r.recipe.Words; size > 0 && u.words >= int64(size) {
		r.balanced = append(r.balanced, balancedUser{u.words, int32(user), u.examples})
		u.words, u.examples = 0, 0
	}
}
