// Command runner runs the two tiers of tests. It repeats a failed test once, alone. If the test then passes, it is
// added to the list of flaky tests and the run continues. If it fails again, the run fails.
//
//	runner gate              all tests without the build tag "ordeal"
//	runner ordeal [SHARD…]   all shards of the ordeal, or those named
//	runner -changed REV ordeal   the shards that the changes since REV touch
//	runner list              the shards with their tests
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"quantix/internal/testkit/tier"
)

const module = "quantix/"

func main() {
	with := flag.String("with", "gotestsum", "the command line of gotestsum")
	changed := flag.String("changed", "", "run the shards that the changes since this revision touch")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	r := &runner{with: strings.Fields(*with), out: os.Stdout}
	if err := r.main(ctx, flag.Args(), *changed); err != nil {
		fmt.Fprintln(os.Stderr, "runner:", err)
		stop()
		os.Exit(1)
	}
}

// runner runs tests and collects their outcomes.
type runner struct {
	with  []string // gotestsum's command line
	out   io.Writer
	all   []testOutcome
	times []string // one line for each step with its duration
}

func (r *runner) main(ctx context.Context, args []string, changed string) error {
	if len(args) == 0 {
		return errors.New("name what to run: gate, ordeal or list")
	}
	switch args[0] {
	case "gate":
		return r.runGate(ctx)
	case "ordeal", "list":
		parts, err := selectParts(ctx, args[1:], changed)
		if err != nil {
			return err
		}
		if args[0] == "list" {
			for _, p := range parts {
				fmt.Fprintf(r.out, "%s: %s, %d tests\n\t%s\n", p.name, p.pkg, len(p.names), strings.Join(p.names, "\n\t"))
			}
			return nil
		}
		return r.runOrdeal(ctx, parts)
	}
	return fmt.Errorf("unknown command %q: use gate, ordeal or list", args[0])
}

// selectParts returns the named parts of the ordeal, or the parts that the changes since a revision affect. Without
// names and revision, it returns all parts.
func selectParts(ctx context.Context, names []string, changed string) ([]shardTests, error) {
	tests, err := ordealTests(".")
	if err != nil {
		return nil, err
	}
	parts, err := assignTests(shards, tests)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if !slices.ContainsFunc(parts, func(p shardTests) bool { return p.name == name }) {
			return nil, fmt.Errorf("there is no shard %q: `runner list` names all", name)
		}
	}
	if len(names) > 0 {
		parts = slices.DeleteFunc(parts, func(p shardTests) bool { return !slices.Contains(names, p.name) })
	}
	if changed != "" {
		files, err := changedFiles(ctx, changed)
		if err != nil {
			return nil, err
		}
		parts = slices.DeleteFunc(parts, func(p shardTests) bool { return !p.affectedBy(files) })
	}
	return parts, nil
}

// changedFiles returns the files that differ from the revision, including untracked files.
func changedFiles(ctx context.Context, revision string) ([]string, error) {
	var files []string
	for _, args := range [][]string{{"diff", "-z", "--name-only", revision, "--"}, {"ls-files", "-z", "--others", "--exclude-standard"}} {
		var stderr bytes.Buffer
		cmd := exec.CommandContext(ctx, "git", args...)
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("list the files changed since %s: %w: %s", revision, err, strings.TrimSpace(stderr.String()))
		}
		files = append(files, strings.FieldsFunc(string(out), func(r rune) bool { return r == 0 })...)
	}
	return files, nil
}

// runGate runs all tests without the build tag: packages without guests with the race detector, then packages with real
// hosts.
func (r *runner) runGate(ctx context.Context) error {
	out, err := exec.CommandContext(ctx, "go", "list", "./...").Output()
	if err != nil {
		return fmt.Errorf("list the packages: %w", err)
	}
	guests := []string{libvirtPkg, labPkg, e2ePkg, benchPkg}
	pure := slices.DeleteFunc(strings.Fields(string(out)), func(p string) bool {
		return slices.Contains(guests, strings.TrimPrefix(p, module))
	})
	// The longest packages start first, so that none of them runs alone at the end.
	long := []string{module + "web", module + "internal/control", module + "static", module + "agent"}
	pure = slices.Concat(long, slices.DeleteFunc(pure, func(p string) bool { return slices.Contains(long, p) }))
	err = errors.Join(
		r.runStep(ctx, "simulated", pure, "-race", "-timeout", "30m"),
		// The timeout of go test includes the wait for tier.AcquireGuestSlot.
		r.runStep(ctx, "real", []string{"./" + libvirtPkg, "./" + labPkg, "./" + e2ePkg}, "-timeout", "30m"),
	)
	return errors.Join(err, r.report())
}

// runOrdeal runs the parts one after another. Each part has its own seed, unless the environment sets a seed.
func (r *runner) runOrdeal(ctx context.Context, parts []shardTests) error {
	if len(parts) == 0 {
		_, err := fmt.Fprintln(r.out, "The changes touch no shard.")
		return err
	}
	var errs []error
	for i, p := range parts {
		seed := tier.Seed() + i
		fmt.Fprintf(r.out, "\nshard %s: %d tests of %s, %s=%d\n", p.name, len(p.names), p.pkg, tier.SeedVariable, seed)
		if err := os.Setenv(tier.SeedVariable, strconv.Itoa(seed)); err != nil {
			return err
		}
		args := []string{"-tags", "ordeal", "-run", p.runPattern(), "-timeout", "40m"}
		if p.race {
			args = append(args, "-race")
		}
		errs = append(errs, r.runStep(ctx, p.name, []string{"./" + p.pkg}, args...))
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(append(errs, r.report())...)
}

// runStep runs the packages' tests with gotestsum, which repeats each failed test once, alone.
func (r *runner) runStep(ctx context.Context, name string, packages []string, args ...string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	dir, err := os.MkdirTemp("", "quantix-runner-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	events := filepath.Join(dir, "events.json")
	// A failed subtest is run again with its whole test, because some tests find their cases in other subtests.
	line := slices.Concat(r.with, []string{
		"--format", "pkgname", "--hide-summary", "skipped", "--jsonfile", events,
		"--rerun-fails=1", "--rerun-fails-max-failures", "10", "--rerun-fails-abort-on-data-race", "--rerun-fails-run-root-test", "--packages", strings.Join(packages, " "),
		"--", "-count", "1", "-vet", "off", // the verify task has already run vet
	}, args)
	begun := time.Now()
	cmd := exec.CommandContext(ctx, line[0], line[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = time.Minute // time for the tests to stop their hosts
	cmd.Stdout, cmd.Stderr = r.out, os.Stderr
	runErr := cmd.Run()
	r.times = append(r.times, fmt.Sprintf("%-14s %4.0f s", name, time.Since(begun).Seconds()))
	text, err := os.ReadFile(events)
	if err != nil {
		return errors.Join(runErr, err)
	}
	got, err := readOutcomes(bytes.NewReader(text))
	if err != nil {
		return errors.Join(runErr, err)
	}
	r.all = append(r.all, got...)
	if runErr == nil {
		runErr = r.checkOutcomes(ctx, name, got)
	}
	if runErr != nil {
		return fmt.Errorf("%s: %w", name, runErr)
	}
	return nil
}

// checkOutcomes adds flaky tests to the list of flaky tests. It returns an error if a failed test did not pass in its
// repetition.
func (r *runner) checkOutcomes(ctx context.Context, name string, got []testOutcome) error {
	if bad := failingTests(got); len(bad) > 0 {
		return fmt.Errorf("%s failed, and was not repeated", bad[0].name)
	}
	if len(got) == 0 {
		return errors.New("no test was run")
	}
	revision, err := exec.CommandContext(ctx, "git", "rev-parse", "--short", "HEAD").Output()
	if err != nil {
		return fmt.Errorf("read the revision: %w", err)
	}
	var rows []string
	for _, o := range flakyTests(got) {
		fmt.Fprintf(r.out, "flaky: %s: %s\n", o.name, o.reason)
		rows = append(rows, flakyTestRow(time.Now(), strings.TrimSpace(string(revision)), name, o))
	}
	if len(rows) == 0 {
		return nil
	}
	return appendFlakyTests(flakyTestsFile, rows)
}

// report prints the slowest tests and the totals.
func (r *runner) report() error {
	fmt.Fprintln(r.out, "\nThe slowest tests:")
	for _, o := range slowestTests(r.all, 20) {
		fmt.Fprintf(r.out, "%7.1f s  %s\n", o.took.Seconds(), o.name)
	}
	failed := 0
	for _, o := range r.all {
		if o.leaf && o.failed > 0 && !o.passed {
			failed++
		}
	}
	leaves := slices.DeleteFunc(slices.Clone(r.all), func(o testOutcome) bool { return !o.leaf })
	_, err := fmt.Fprintf(r.out, "\n%s\nflaky: %d\n%d passed, %d failed\n", strings.Join(r.times, "\n"), len(flakyTests(r.all)), len(leaves)-failed, failed)
	return err
}
