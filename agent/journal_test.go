package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/wire"
)

func resetJob(id string) wire.Work {
	return wire.Work{ID: fleet.JobID(id), Kind: fleet.VMReset, Subject: "vm:1", Generation: 4}
}

func openTestJournal(t *testing.T, path string) *journal {
	t.Helper()
	j, err := openJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.close() })
	return j
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestJournalSurvivesTruncation(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "j")
	j := openTestJournal(t, path)
	must(t, j.recordBegin(resetJob("a"), 7, true))
	must(t, j.recordOutcome("a", wire.Failed, "words", true))
	must(t, j.recordBegin(resetJob("b"), 8, true))
	whole, err := os.ReadFile(path)
	must(t, err)
	for cut := range len(whole) + 1 {
		torn := filepath.Join(t.TempDir(), "torn")
		must(t, os.WriteFile(torn, whole[:cut], 0o600))
		again := openTestJournal(t, torn)
		if e, ok := again.lookup("a"); ok && (e.Epoch != 7 || e.Generation != 4 || e.Outcome != "" && e.Error != "words") {
			t.Fatalf("cut at %d: %+v", cut, e)
		}
		must(t, again.recordBegin(resetJob("c"), 9, true))
		if e, ok := openTestJournal(t, torn).lookup("c"); !ok || e.Epoch != 9 {
			t.Fatalf("cut at %d: the entry written after the cut is lost", cut)
		}
	}
	if open := openTestJournal(t, path).undeliveredEntries(); len(open) != 2 || open[0].Outcome != wire.Failed || open[1].Outcome != "" {
		t.Errorf("open entries are %+v", open)
	}
}

func TestJournalCompactionKeepsOpenEntries(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "j")
	j := openTestJournal(t, path)
	must(t, j.recordBegin(resetJob("open"), 1, true))
	for n := range 5000 {
		id := fleet.JobID(fmt.Sprint("job-", n))
		must(t, j.recordBegin(resetJob(string(id)), 2, false))
		must(t, j.recordOutcome(id, wire.Done, strings.Repeat("x", 100), false))
		must(t, j.recordDelivered(id))
	}
	info, err := os.Stat(path)
	must(t, err)
	if info.Size() > 2*journalLimit {
		t.Errorf("the journal has %d bytes", info.Size())
	}
	again := openTestJournal(t, path)
	if _, ok := again.lookup("open"); !ok {
		t.Error("an open entry was dropped")
	}
	if e, ok := again.lookup("job-4999"); !ok || !e.Delivered {
		t.Error("the newest entry was dropped")
	}
}

func TestCertificateRenewalAtTwoThirdsOfLifetime(t *testing.T) {
	t.Parallel()
	from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	until := from.Add(24 * time.Hour)
	if at := certificateRenewalTime(from, until, 0); at != from.Add(16*time.Hour) {
		t.Errorf("at the latest %s", at)
	}
	if at := certificateRenewalTime(from, until, 0.999); at.Before(from.Add(13*time.Hour + 30*time.Minute)) {
		t.Errorf("at the earliest %s", at)
	}
}

func TestCertificateRenewalFollowsPortalClock(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for name, c := range map[string]struct {
		ahead   time.Duration // of this machine's clock
		silent  bool          // the portal sends no time
		refused time.Duration // time of a refusal
		want    time.Duration // time of the renewal
	}{
		"right clock":                             {want: 16 * time.Hour},
		"clock a day ahead, portal's time known":  {ahead: day, want: 16 * time.Hour},
		"clock a day behind, portal's time known": {ahead: -day, want: 16 * time.Hour},
		"clock a day ahead and no portal time":    {ahead: day, silent: true, want: minRenewalPause},
		"certificate refused":                     {ahead: -day, silent: true, refused: time.Hour, want: time.Hour},
		"certificate refused during the pause":    {refused: time.Second, want: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				now := func() time.Time {
					if c.silent {
						return time.Now().Add(c.ahead)
					}
					return time.Now()
				}
				refused := make(chan struct{}, 1)
				if c.refused > 0 {
					time.AfterFunc(c.refused, func() { refused <- struct{}{} })
				}
				if !waitForRenewal(t.Context(), begun.Add(16*time.Hour), minRenewalPause, now, refused) || time.Since(begun) != c.want {
					t.Errorf("renewal after %s, want %s", time.Since(begun), c.want)
				}
			})
		})
	}
}

func TestJobProgressIsThrottledToNewestValue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var sent []string
		j := progressNotifier{send: func(p wire.Progress) {
			sent = append(sent, p.Note)
			time.Sleep(time.Second)
		}}
		for n := range 100 {
			j.notify(n, strconv.Itoa(n))
			time.Sleep(29 * time.Millisecond)
		}
		j.stop()
		j.notify(100, "late")
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(sent) != 3 || sent[0] != "0" || sent[2] == "late" {
			t.Errorf("sent %q", sent)
		}
	})
}

func TestBackoffGrowsToMaximum(t *testing.T) {
	t.Parallel()
	b := newBackoff(100*time.Millisecond, 2*time.Second)
	for range 20 {
		if d := b.NextBackOff(); d < 50*time.Millisecond || d > 3*time.Second {
			t.Errorf("a wait of %s", d)
		}
	}
	b.Reset()
	if d := b.NextBackOff(); d > 150*time.Millisecond {
		t.Errorf("after a reset, a wait of %s", d)
	}
}

func TestAgentStateFileIsWrittenOnlyOnChange(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "m")
	m, err := openStateFile(path)
	must(t, err)
	vm := fleet.VM{Meta: fleet.Meta{ID: "1", Name: "web"}}
	must(t, m.setVMResult(vm, 2, fleet.VMStart, "no", true, ""))
	must(t, os.Remove(path))
	must(t, m.setVMResult(vm, 1, fleet.VMStart, "no", true, ""))
	if _, err := os.Stat(path); err == nil {
		t.Error("an older generation was written")
	}
	must(t, m.setVMResult(vm, 2, fleet.VMStart, "", true, ""))
	s := wire.State{VMs: []wire.VMReport{{ID: "1", Generation: 1, Status: fleet.VMStatus{Power: fleet.Running}}}}
	m.addAgentState(&s, "")
	if s.VMs[0].Generation != 2 || s.VMs[0].Status.Error != "" {
		t.Errorf("the report is %+v", s.VMs[0])
	}
	must(t, m.removeOldEntries(wire.State{}, map[fleet.Subject]bool{"vm:1": true}, time.Now()))
	must(t, m.removeOldEntries(wire.State{}, nil, time.Now().Add(-time.Minute))) // the read began before the job
	if len(m.data.VMs) != 1 {
		t.Errorf("the state file has %+v", m.data)
	}
	must(t, m.removeOldEntries(wire.State{}, nil, time.Now()))
	again, err := openStateFile(path)
	must(t, err)
	if len(again.data.VMs) != 0 {
		t.Errorf("the state file has %+v", again.data)
	}
}
