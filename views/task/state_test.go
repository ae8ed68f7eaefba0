package task

import (
	"strings"
	"testing"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/testkit/rendered"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func TestTaskResultTextDependsOnState(t *testing.T) {
	t.Parallel()
	ended := noon.Add(640 * time.Millisecond)
	job := func(state fleet.JobState, change ...func(*fleet.Task)) fleet.Task {
		j := fleet.Task{Kind: fleet.VMStart, Subject: "vm:1", SubjectName: "web-01", HostName: "h1", State: state, CreatedAt: noon}
		for _, f := range change {
			f(&j)
		}
		return j
	}
	for want, j := range map[string]fleet.Task{
		"Waiting":                               job(fleet.JobQueued),
		"waiting for one of 4 transfers to end": job(fleet.JobQueued, func(j *fleet.Task) { j.Note = "waiting for one of 4 transfers to end" }),
		"Running on h1":                         job(fleet.JobRunning),
		"copying disk 1":                        job(fleet.JobRunning, func(j *fleet.Task) { j.Note = "copying disk 1" }),
		"Done in 0.6 s":                         job(fleet.JobDone, func(j *fleet.Task) { j.EndedAt, j.Note = &ended, "writing the definition" }),
		"Done in 0.6 s The guest did not release usb/046d:c52b; it is removed at the next start.": job(fleet.JobDone, func(j *fleet.Task) {
			j.EndedAt, j.Note = &ended, "The guest did not release usb/046d:c52b; it is removed at the next start."
		}),
		"Done in 0.6 s uploaded 64 MiB": job(fleet.JobDone, func(j *fleet.Task) {
			j.Kind, j.EndedAt, j.Note = fleet.VolumeUpload, &ended, "uploaded 64 MiB"
		}),
		"Cannot access storage file '/nope' <here>": job(fleet.JobFailed, func(j *fleet.Task) { j.Error = "Cannot access storage file '/nope' <here>" }),
		"Cancelled": job(fleet.JobCancelled),
		"Outcome unknown: look at web-01 before you repeat it.": job(fleet.JobUnknown),
	} {
		if got := rendered.Text(t, ResultText(j)); got != want {
			t.Errorf("%s reads %q, not %q", j.State, got, want)
		}
	}
	bar := rendered.HTML(t, ProgressBar(job(fleet.JobRunning, func(j *fleet.Task) { j.Progress = 40 })))
	if !strings.Contains(bar, `value="40"`) || !strings.Contains(bar, `aria-label="Start web-01"`) {
		t.Errorf("the bar is %s", bar)
	}
	if bar := rendered.HTML(t, ProgressBar(job(fleet.JobUnknown))); strings.Contains(bar, "<progress") {
		t.Errorf("the progress is unknown, but the bar is %s", bar)
	}
}

func TestTaskStatesHaveDistinctWords(t *testing.T) {
	t.Parallel()
	words := map[string]fleet.JobState{}
	for _, s := range []fleet.JobState{fleet.JobQueued, fleet.JobRunning, fleet.JobDone, fleet.JobFailed, fleet.JobCancelled, fleet.JobUnknown} {
		tone, _, word := taskStateAppearance(s)
		if other, taken := words[word]; taken {
			t.Errorf("%s and %s read alike", s, other)
		}
		words[word] = s
		if want := map[fleet.JobState]string{fleet.JobDone: "ok", fleet.JobFailed: "bad", fleet.JobUnknown: "unknown", fleet.JobRunning: "info"}[s]; tone != want {
			t.Errorf("%s is drawn as %q", s, tone)
		}
	}
}
