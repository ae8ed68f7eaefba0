package goals

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Results from several processes appear in the order of the goals. If a goal has several results, the last one appears;
// goals without a result are listed, too.
func TestGoalTableListsEveryGoal(t *testing.T) {
	name := filepath.Join(t.TempDir(), "rows")
	t.Setenv(RowsVar, name)
	CSV.Record(t, true, "90,000", "COPY 300,000", 0.3)
	Pages.Record(t, true, "1", "", 1)
	Throughput.Record(t, "3,000 jobs/s", "net/http alone 30,000", 0.1)
	Pages.Record(t, false, "95/149", "the query alone 1/2", 95)
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := ReadRows(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	table := FormatTable(rows)
	lines := strings.Split(strings.TrimSpace(table), "\n")
	if len(lines) != 2+len(all) {
		t.Fatalf("%d lines for %d goals", len(lines), len(all))
	}
	for i, want := range map[int]string{
		2: "| VM page · host list · dashboard, p50/p99 | p99 ≤ 20 ms | 95/149 | **missed** | the query alone 1/2 | 95.00 × |",
		3: "| not measured |  |  |  |",
	} {
		if !strings.Contains(lines[i], want) {
			t.Errorf("line %d is %s", i, lines[i])
		}
	}
	if at := strings.Index(table, "| 90,000 | met | COPY 300,000 | 0.30 × |"); at < strings.Index(table, "95/149") {
		t.Errorf("the lines are out of order:\n%s", table)
	}
	if !strings.Contains(table, "| limit: net/http alone, one request per job, no TLS | 3,000 jobs/s |  | net/http alone 30,000 | 0.10 × |") {
		t.Errorf("a limit has a verdict:\n%s", table)
	}
	if missing := MissingPaths(rows); len(missing) != len(all)-3 {
		t.Errorf("%d goals are missing: %q", len(missing), missing)
	}
	if _, err := ReadRows(strings.NewReader(`{"Path":"Nothing"}`)); err == nil {
		t.Error("an unknown goal is accepted")
	}
	again, err := ReplaceTable("Before\n\n"+table+"\nAfter\n", head+"| x |\n")
	if err != nil || again != "Before\n\n"+head+"| x |\n\nAfter\n" {
		t.Errorf("replaced: %q, %v", again, err)
	}
}

// The manual's table has the rows and goals of the benchmarks, in the same order. It has a ratio in each row with a
// comparison.
func TestManualTableMatchesGoals(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../" + Chapter)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), head)
	if !found {
		t.Fatalf("%s has no table that begins with %q", Chapter, head)
	}
	var rows [][]string
	for line := range strings.Lines(rest) {
		if !strings.HasPrefix(line, "| ") {
			break
		}
		rows = append(rows, tableCells(line))
	}
	if len(rows) != len(all) {
		t.Errorf("%s has %d rows, the benchmarks have %d", Chapter, len(rows), len(all))
	}
	for i, g := range all[:min(len(all), len(rows))] {
		row := rows[i]
		if len(row) != 6 || row[0] != g.path || row[1] != g.goal {
			t.Errorf("row %d is %q, not that of %q with the goal %q", i, row, g.path, g.goal)
			continue
		}
		if row[2] == "" || (row[4] == "") != (row[5] == "") {
			t.Errorf("%s: the result is missing, or only one of reference and ratio is given: %q", g.path, row)
		}
		if none := strings.HasPrefix(g.goal, "limit: ") || row[2] == "not measured"; none != (row[3] == "") {
			t.Errorf("%s: the verdict is %q", g.path, row[3])
		}
	}
}

func tableCells(line string) (out []string) {
	for cell := range strings.SplitSeq(strings.Trim(strings.TrimSpace(line), "|"), "|") {
		out = append(out, strings.TrimSpace(cell))
	}
	return out
}
