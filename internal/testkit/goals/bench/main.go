// Command bench runs all benchmarks that have goals, from the repository's root, and prints their results as one table.
// With -save it also updates the table in the manual.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"quantix/internal/testkit/goals"
)

// timeLimit is the time limit for all benchmarks on two idle cores.
const timeLimit = 12 * time.Minute

// runs lists the benchmarks that have goals: flags of go test, and the package.
var runs = [][]string{
	// BenchmarkVMList and BenchmarkCSV are skipped, because BenchmarkFleet measures the same list and export with a
	// real portal process.
	{"-bench", ".", "-skip", "^Benchmark(VMList|CSV)$", "-benchtime", "1x", "-timeout", "40m", "./internal/bench"},
	{"-bench", "Overlay", "-benchtime", "20x", "./agent/libvirt"},
	{"-bench", "Definition", "-benchtime", "5000x", "./agent/libvirt/domxml"},
	{"-bench", "WouldPass", "-benchtime", "500x", "./internal/secgroup"},
	{"-bench", "Splice", "-benchtime", "200x", "./internal/relay"},
}

func main() {
	save := flag.Bool("save", false, "put the table into "+goals.Chapter)
	flag.Parse()
	if err := runBenchmarks(*save); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func runBenchmarks(save bool) error {
	dir, err := os.MkdirTemp("", "quantix-goals-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	name := filepath.Join(dir, "rows")
	began := time.Now()
	var failed error
	for _, flags := range runs {
		cmd := exec.Command("go", append([]string{"test", "-run", "^$"}, flags...)...)
		cmd.Env = append(os.Environ(), goals.RowsVar+"="+name)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Run(); err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", strings.Join(cmd.Args, " "), err))
		}
	}
	took := time.Since(began)
	file, err := os.Open(name)
	if err != nil {
		return errors.Join(failed, err)
	}
	defer file.Close()
	rows, err := goals.ReadRows(file)
	if err != nil {
		return errors.Join(failed, err)
	}
	table := goals.FormatTable(rows)
	fmt.Printf("%s\nAll of it took %s, of at most %s. %s\n", table, took.Round(time.Second), timeLimit, longestRows(rows, began))
	if missing := goals.MissingPaths(rows); len(missing) > 0 {
		failed = errors.Join(failed, fmt.Errorf("no measurement of: %s", strings.Join(missing, "; ")))
	}
	if failed != nil || !save {
		return failed
	}
	text, err := os.ReadFile(goals.Chapter)
	if err != nil {
		return err
	}
	now, err := goals.ReplaceTable(string(text), table)
	if err != nil {
		return fmt.Errorf("%s: %w", goals.Chapter, err)
	}
	return os.WriteFile(goals.Chapter, []byte(now), 0o644)
}

// longestRows names the rows whose benchmarks took the most time, including preparations.
func longestRows(rows []goals.Row, began time.Time) string {
	type part struct {
		path string
		took time.Duration
	}
	var parts []part
	for _, r := range rows {
		parts = append(parts, part{r.Path, r.At.Sub(began)})
		began = r.At
	}
	slices.SortFunc(parts, func(a, b part) int { return cmp.Compare(b.took, a.took) })
	var words []string
	for _, p := range parts[:min(len(parts), 8)] {
		words = append(words, fmt.Sprintf("%s %s", p.took.Round(time.Second), p.path))
	}
	return "Most of it: " + strings.Join(words, "; ") + "."
}
