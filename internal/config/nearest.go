package config

import (
	"fmt"
	"strings"
)

// didYouMean suggests the most similar name, as "; did you mean "listen"?". It is empty if no name is similar.
func didYouMean(name string, names []string) string {
	best, bestDistance := "", len(name)/3+1
	for _, candidate := range names {
		if d := editDistance(normalize(name), normalize(candidate)); d <= bestDistance {
			if d < bestDistance || best == "" {
				best, bestDistance = candidate, d
			}
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", best)
}

// normalize returns the same text for the three spellings data-dir, data_dir and dataDir.
func normalize(name string) string {
	return strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(name))
}

// editDistance returns the Levenshtein distance between two texts, in characters.
func editDistance(a, b string) int {
	from, to := []rune(a), []rune(b)
	row := make([]int, len(to)+1)
	for j := range row {
		row[j] = j
	}
	for i, x := range from {
		diagonal := row[0]
		row[0] = i + 1
		for j, y := range to {
			replace := diagonal
			if x != y {
				replace++
			}
			diagonal = row[j+1]
			row[j+1] = min(replace, row[j]+1, diagonal+1)
		}
	}
	return row[len(to)]
}
