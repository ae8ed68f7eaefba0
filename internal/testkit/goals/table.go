package goals

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// head is how the table begins, and how it is found in README.
const head = "| Path | Goal | Ours | Verdict | Beside it | Ratio |\n|---|---|---|---|---|---|\n"

// Read reads the rows that benchmarks told.
func Read(from io.Reader) (rows []Row, err error) {
	for d := json.NewDecoder(from); ; {
		var r Row
		err := d.Decode(&r)
		if err == io.EOF {
			return rows, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the rows: %w", err)
		}
		if !slices.ContainsFunc(all, func(g Goal) bool { return g.path == r.Path }) {
			return nil, fmt.Errorf("nobody set the goal %q", r.Path)
		}
		rows = append(rows, r)
	}
}

// Table is the rows as Markdown: one line for each goal and limit, also for those of which nobody told.
func Table(rows []Row) string {
	told := map[string]Row{}
	for _, r := range rows {
		told[r.Path] = r
	}
	var out strings.Builder
	out.WriteString(head)
	for _, g := range all {
		r, measured := told[g.path]
		ratio := fmt.Sprintf("%.2f ×", r.Ratio)
		if !measured {
			r.Ours, ratio = "not measured", ""
		}
		out.WriteString("| " + strings.Join([]string{g.path, g.goal, r.Ours, r.Verdict, r.Beside, ratio}, " | ") + " |\n")
	}
	return out.String()
}

// Missing are the paths of which nobody told.
func Missing(rows []Row) (paths []string) {
	for _, g := range all {
		if !slices.ContainsFunc(rows, func(r Row) bool { return r.Path == g.path }) {
			paths = append(paths, g.path)
		}
	}
	return paths
}

// Replace gives the text with another table in place of the one that it has.
func Replace(text, table string) (string, error) {
	before, rest, found := strings.Cut(text, head)
	if !found {
		return "", errors.New("the text has no table of figures")
	}
	for strings.HasPrefix(rest, "|") {
		_, rest, _ = strings.Cut(rest, "\n")
	}
	return before + table + rest, nil
}
