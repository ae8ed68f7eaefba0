package goals

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Chapter is the chapter of the manual that contains the table, as a path from the repository's root.
const Chapter = "static/docs/figures.md"

// head is the header of the table. ReplaceTable finds the table in Chapter by this header.
const head = "| Path | Goal | Result | Verdict | Reference | Ratio |\n|---|---|---|---|---|---|\n"

// ReadRows reads the rows that benchmarks have recorded.
func ReadRows(from io.Reader) (rows []Row, err error) {
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
			return nil, fmt.Errorf("there is no goal %q", r.Path)
		}
		rows = append(rows, r)
	}
}

// FormatTable returns the rows as Markdown: one line for each goal and limit, also for those without a result.
func FormatTable(rows []Row) string {
	results := map[string]Row{}
	for _, r := range rows {
		results[r.Path] = r
	}
	var out strings.Builder
	out.WriteString(head)
	for _, g := range all {
		r, measured := results[g.path]
		ratio := fmt.Sprintf("%.2f ×", r.Ratio)
		if !measured {
			r.Ours, ratio = "not measured", ""
		}
		out.WriteString("| " + strings.Join([]string{g.path, g.goal, r.Ours, r.Verdict, r.Beside, ratio}, " | ") + " |\n")
	}
	return out.String()
}

// MissingPaths returns the paths of goals and limits without a result.
func MissingPaths(rows []Row) (paths []string) {
	for _, g := range all {
		if !slices.ContainsFunc(rows, func(r Row) bool { return r.Path == g.path }) {
			paths = append(paths, g.path)
		}
	}
	return paths
}

// ReplaceTable replaces the table in the text of the chapter.
func ReplaceTable(text, table string) (string, error) {
	before, rest, found := strings.Cut(text, head)
	if !found {
		return "", errors.New("the text has no table of figures")
	}
	for strings.HasPrefix(rest, "|") {
		_, rest, _ = strings.Cut(rest, "\n")
	}
	return before + table + rest, nil
}
