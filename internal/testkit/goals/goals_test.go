package goals

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What benchmarks of any process told comes out in the goals' order, the later word of two, and what nobody told is not left out.
func TestTheTableHasALineForEachGoal(t *testing.T) {
	name := filepath.Join(t.TempDir(), "rows")
	t.Setenv(rowsVar, name)
	CSV.Tell(t, true, "90,000", "COPY 300,000")
	Pages.Tell(t, true, "1", "")
	Pages.Tell(t, false, "95/149", "the query alone 1/2")
	rows, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := Table(&out, bytes.NewReader(rows)); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2+len(all) {
		t.Fatalf("%d lines for %d goals", len(lines), len(all))
	}
	for i, want := range map[int]string{
		2: "| VM page · host list · dashboard, p50/p99 | p99 ≤ 20 ms | 95/149 | **missed** | the query alone 1/2 |",
		3: "| not measured | – |  |",
	} {
		if !strings.Contains(lines[i], want) {
			t.Errorf("line %d is %s", i, lines[i])
		}
	}
	if at := strings.Index(out.String(), "| 90,000 | met | COPY 300,000 |"); at < strings.Index(out.String(), "95/149") {
		t.Errorf("the lines are out of order:\n%s", &out)
	}
	if err := Table(&out, strings.NewReader(`{"Path":"Nothing"}`)); err == nil {
		t.Error("a goal that nobody set is taken")
	}
}
