package task

import (
	"strconv"
	"strings"

	"quantix/internal/fleet"
)

// ChildTasksText counts child tasks by state: "3 done · 1 running · 1 refused".
func ChildTasksText(s fleet.Steps) string {
	var parts []string
	for _, x := range []struct {
		n    int
		word string
	}{
		{s.Done, "done"},
		{s.Running, "running"},
		{s.Queued, "waiting"},
		{s.Failed, "failed"},
		{s.Unknown, "outcome unknown"},
		{s.Cancelled, "cancelled"},
		{s.Refused, "refused"},
	} {
		if x.n > 0 {
			parts = append(parts, strconv.Itoa(x.n)+" "+x.word)
		}
	}
	return strings.Join(parts, " · ")
}

// hostsText names the task's host. That of a migration is followed by the host that the VM moves to.
func hostsText(t fleet.Task) string {
	if t.TargetHostName == "" {
		return t.HostName
	}
	return t.HostName + " → " + t.TargetHostName
}

func taskStateAppearance(s fleet.JobState) (t, icon, word string) {
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

// taskStateClass is the CSS class of texts about a task in the state.
func taskStateClass(s fleet.JobState) string {
	switch s {
	case fleet.JobFailed:
		return "bad"
	case fleet.JobUnknown:
		return "unknown"
	}
	return "muted"
}
