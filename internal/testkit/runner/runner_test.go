package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestShardsCoverEveryOrdealTest(t *testing.T) {
	t.Parallel()
	tests, err := ordealTests("../../..")
	if err != nil {
		t.Fatal(err)
	}
	parts, err := assignTests(shards, tests)
	if err != nil {
		t.Fatal(err)
	}
	taken := 0
	for _, p := range parts {
		taken += len(p.names)
	}
	found := 0
	for _, names := range tests {
		found += len(names)
	}
	if taken != found || found < 100 {
		t.Errorf("the shards take %d of %d tests", taken, found)
	}
}

func TestAssignTestsRefusesTestWithoutShard(t *testing.T) {
	t.Parallel()
	one := []shard{{name: "a", pkg: "p", tests: "^TestA"}}
	for name, c := range map[string]struct {
		tests map[string][]string
		want  string
	}{
		"a test without a shard":    {map[string][]string{"p": {"TestA", "TestB"}}, "TestB"},
		"a package without a shard": {map[string][]string{"p": {"TestA"}, "q": {"TestA"}}, "TestA of q"},
		"a shard without tests":     {map[string][]string{}, "shard a has no tests"},
	} {
		if _, err := assignTests(one, c.tests); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOrdealIncludesOnlyFilesWithBuildTag(t *testing.T) {
	t.Parallel()
	for head, want := range map[string]int{
		"//go:build linux && ordeal":  1,
		"//go:build ordeal":           1,
		"//go:build linux":            0,
		"//go:build linux || ordeal":  0,
		"//go:build !ordeal":          0,
		"// tests of the tag ordeal":  0,
		"//go:build linux && !ordeal": 0,
	} {
		path := filepath.Join(t.TempDir(), "x_test.go")
		text := head + "\n\npackage x\n\nfunc TestMain(m *testing.M) {}\n\nfunc TestOne(t *testing.T) {}\n\nfunc helper() {}\n"
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if names, err := taggedTests(path); err != nil || len(names) != want {
			t.Errorf("%s: %v, %v; want %d", head, names, err, want)
		}
	}
}

const sampleEvents = `{"Action":"run","Package":"quantix/web","Test":"TestA"}
{"Action":"run","Package":"quantix/web","Test":"TestA/one"}
{"Action":"output","Package":"quantix/web","Test":"TestA/one","Output":"    a_test.go:12: not in | time\n"}
{"Action":"output","Package":"quantix/web","Test":"TestA/one","Output":"    a_test.go:13: later\n"}
{"Action":"fail","Package":"quantix/web","Test":"TestA/one","Elapsed":2.5}
{"Action":"fail","Package":"quantix/web","Test":"TestA","Elapsed":2.6}
{"Action":"run","Package":"quantix/web","Test":"TestB"}
{"Action":"pass","Package":"quantix/web","Test":"TestB","Elapsed":1}
{"Action":"run","Package":"quantix/web","Test":"TestC"}
{"Action":"fail","Package":"quantix/web","Test":"TestC","Elapsed":9}
{"Action":"fail","Package":"quantix/web","Elapsed":12}
`

const samplePassed = `{"Action":"run","Package":"quantix/web","Test":"TestA"}
{"Action":"run","Package":"quantix/web","Test":"TestA/one"}
{"Action":"pass","Package":"quantix/web","Test":"TestA/one","Elapsed":0.5}
{"Action":"pass","Package":"quantix/web","Test":"TestA","Elapsed":0.6}
`

func outcomeNames(all []testOutcome) (out []string) {
	for _, o := range all {
		out = append(out, o.name.String())
	}
	return out
}

func TestFailedTestThatPassesOnRerunIsFlaky(t *testing.T) {
	t.Parallel()
	all, err := readOutcomes(strings.NewReader(sampleEvents + samplePassed))
	if err != nil {
		t.Fatal(err)
	}
	if got := outcomeNames(flakyTests(all)); !slices.Equal(got, []string{"web.TestA/one"}) {
		t.Errorf("flaky: %v", got)
	}
	if got := outcomeNames(failingTests(all)); !slices.Equal(got, []string{"web.TestC"}) {
		t.Errorf("lost: %v", got)
	}
	if got := outcomeNames(slowestTests(all, 2)); !slices.Equal(got, []string{"web.TestC", "web.TestA/one"}) {
		t.Errorf("slowest: %v", got)
	}
	// Without a repetition no test is flaky: a failed test that was not repeated must not pass.
	all, err = readOutcomes(strings.NewReader(sampleEvents))
	if got := outcomeNames(failingTests(all)); err != nil || !slices.Equal(got, []string{"web.TestA/one", "web.TestC"}) {
		t.Errorf("lost without a repetition: %v, %v", got, err)
	}
}

func TestFlakyTestRowAppended(t *testing.T) {
	t.Parallel()
	all, err := readOutcomes(strings.NewReader(sampleEvents + samplePassed))
	if err != nil {
		t.Fatal(err)
	}
	row := flakyTestRow(time.Date(2026, 11, 26, 0, 0, 0, 0, time.UTC), "abc1234", "simulated", flakyTests(all)[0])
	if want := "| 2026-11-26 | abc1234 | simulated | `web.TestA/one` | a_test.go:12: not in / time |\n"; row != want {
		t.Errorf("the row is %q, want %q", row, want)
	}
	path := filepath.Join(t.TempDir(), "flakes.md")
	if err := appendFlakyTests(path, []string{row}); err == nil {
		t.Error("a missing ledger was created")
	}
	if err := os.WriteFile(path, []byte("head\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := appendFlakyTests(path, []string{row, row}); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "head\n"+row+row {
		t.Errorf("the ledger is %q, %v", text, err)
	}
	if text, err := os.ReadFile("../flakes.md"); err != nil || !strings.HasSuffix(string(text), "|\n") {
		t.Errorf("the project's own ledger ends with %q, %v", text, err)
	}
}

func TestChangedFileSelectsItsShards(t *testing.T) {
	t.Parallel()
	p := shardTests{shard: shard{pkg: "agent/libvirt", watches: `^agent/libvirt/volume`}}
	for file, want := range map[string]bool{
		"agent/libvirt/volumework.go":  true,
		"agent/libvirt/domain.go":      false,
		"agent/libvirt/domain_test.go": true,
		"web/pools.go":                 false,
	} {
		if got := p.affectedBy([]string{"README.md", file}); got != want {
			t.Errorf("%s: %v, want %v", file, got, want)
		}
	}
}
