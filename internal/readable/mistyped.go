// This file finds the word that somebody has meant who has mistyped it.

package readable

// LikelyEdits is how many letters of a word may be mistyped for another word to be meant: one of
// short words, which have many neighbours.
func LikelyEdits(word string) int { return min(max(1, len(word)/4), 3) }

// DidYouMean ends a message with a suggestion, if there is one.
func DidYouMean(suggestion string) string {
	if suggestion == "" {
		return ""
	}
	return "; did you mean " + suggestion + "?"
}

// Edits is Levenshtein's, in bytes, with two neighbours swapped as one edit. Very long words
// are far from all.
func Edits(a, b string) int {
	if len(a) > 100 {
		return len(a)
	}
	rows := [3][]int{make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)}
	before, last, row := rows[0], rows[1], rows[2]
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before, last, row = last, row, before
		row[0] = i + 1
		for j := range len(b) {
			replace := last[j]
			if a[i] != b[j] {
				replace++
			}
			row[j+1] = min(replace, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
	}
	return row[len(b)]
}

// Nearest returns the word of a list that somebody may have meant, empty if none comes near.
func Nearest(mistyped string, words []string) string {
	best, distance := "", LikelyEdits(mistyped)+1
	for _, word := range words {
		if d := Edits(mistyped, word); d < distance {
			best, distance = word, d
		}
	}
	return best
}
