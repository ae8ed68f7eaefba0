package views

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"quantix/internal/fleet"
)

// Bytes writes a size as people read it.
func Bytes(n int64) string { return fleet.Bytes(n) }

// MiB writes a memory size given in MiB.
func MiB(n int) string { return Bytes(int64(n) << 20) }

// Short writes a length of time by its largest unit: "4 s", "12 min", "3 h", "5 d".
func Short(d time.Duration) string {
	switch {
	case d < 0:
		return "0 s"
	case d < time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%d min", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", d/time.Hour)
	}
	return fmt.Sprintf("%d d", d/(24*time.Hour))
}

// Took writes how long something lasted: "0.6 s", "12 s", "3 min".
func Took(d time.Duration) string {
	if d < 100*time.Millisecond {
		return fmt.Sprintf("%d ms", max(d, 0).Milliseconds())
	}
	if tenths := d.Round(100 * time.Millisecond); tenths < 10*time.Second {
		return fmt.Sprintf("%.1f s", tenths.Seconds())
	}
	return Short(d.Round(time.Second))
}

// Count writes a number with a noun: "1 VM", "3 VMs".
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// percent of part in whole, 0 to 100.
func percent(part, whole int64) int {
	if whole <= 0 || part <= 0 {
		return 0
	}
	return int(min(100, (part*100+whole/2)/whole))
}

// labelList is labels in the order of their keys: "env=prod".
func labelList(labels map[string]string) []string {
	out := make([]string, 0, len(labels))
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		out = append(out, k+"="+labels[k])
	}
	return out
}

// LabelText is labels as a form shows them: one a line.
func LabelText(labels map[string]string) string { return strings.Join(labelList(labels), "\n") }

// slug makes text safe inside an element's id.
func slug(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '-'
	}, s)
}

// tone is the class for a tone; idle has none.
func tone(t fleet.Tone) string {
	if t == fleet.ToneIdle {
		return ""
	}
	return string(t)
}

// phaseIcon is the icon for a VM's phase; it turns while the phase is on its way.
func phaseIcon(p fleet.Phase) (name string, spin bool) {
	switch p {
	case fleet.PhaseRunning, fleet.PhaseNeedsRestart:
		return "circle-play", false
	case fleet.PhasePaused:
		return "circle-pause", false
	case fleet.PhaseStopped:
		return "circle-stop", false
	case fleet.PhaseFailed, fleet.PhaseCrashed, fleet.PhaseMissing:
		return "triangle-alert", false
	case fleet.PhaseUnknown:
		return "circle-question-mark", false
	}
	return "loader", true
}

func toneIcon(t fleet.Tone) string {
	switch t {
	case fleet.ToneOK:
		return "circle-check"
	case fleet.ToneWarn, fleet.ToneBad:
		return "triangle-alert"
	case fleet.ToneUnknown:
		return "circle-question-mark"
	}
	return "circle-stop"
}

func jobLook(s fleet.JobState) (t, icon, word string) {
	switch s {
	case fleet.JobQueued:
		return "", "clock", "Waiting"
	case fleet.JobRunning:
		return "info", "loader", "Running"
	case fleet.JobDone:
		return "ok", "circle-check", "Done"
	case fleet.JobFailed:
		return "bad", "triangle-alert", "Failed"
	case fleet.JobCancelled:
		return "", "ban", "Cancelled"
	}
	return "unknown", "circle-question-mark", "Outcome unknown"
}

// taskTone is the class of words about a task in that state.
func taskTone(s fleet.JobState) string {
	switch s {
	case fleet.JobFailed:
		return "bad"
	case fleet.JobUnknown:
		return "unknown"
	}
	return "muted"
}

func lower(s string) string { return strings.ToLower(s) }

// aHost and TheHost name a host within a sentence and at its beginning; who sees no hosts is not told which.
func aHost(name string) string { return cmp.Or(name, "its host") }

// TheHost is aHost at the beginning of a sentence.
func TheHost(name string) string { return cmp.Or(name, "Its host") }

// Hostless are the columns without those about hosts.
func (all Columns) Hostless() Columns {
	return slices.DeleteFunc(slices.Clone(all), func(c Column) bool { return c.Key == "host" })
}
