package task

import (
	"cmp"
	"strconv"

	"quantix/internal/fleet"
	"quantix/views"
	"quantix/views/kit"
)

// ChildTaskColumns are the columns of a task's children.
var ChildTaskColumns = kit.Columns{
	{Key: "state", Label: "State"},
	{Key: "result", Label: "Result"},
	{Key: "progress", Label: "Progress", Class: "hide-narrow"},
	{Key: "host", Label: "Host", Class: "hide-narrow"},
	{Key: "task", Label: "Task"},
}

// tabs of a task with children filter the children by state. There is one tab for each state that occurs.
func (p Page) tabs() []kit.Tab {
	if p.ChildTasks == nil {
		return nil
	}
	s, here := p.Task.Steps, p.ChildTasks.Filter.Value
	tabs := []kit.Tab{{Text: "All", Count: strconv.Itoa(s.Queued + s.Running + s.Done + s.Failed + s.Refused + s.Cancelled + s.Unknown)}}
	for _, x := range []struct {
		state fleet.JobState
		n     int
	}{
		{fleet.JobQueued, s.Queued}, {fleet.JobRunning, s.Running}, {fleet.JobDone, s.Done}, {fleet.JobFailed, s.Failed + s.Refused}, {fleet.JobUnknown, s.Unknown}, {fleet.JobCancelled, s.Cancelled},
	} {
		key := "state:" + string(x.state)
		tone, _, word := taskStateAppearance(x.state)
		if x.n > 0 || here == key {
			tabs = append(tabs, kit.Tab{Key: key, Text: word, Count: strconv.Itoa(x.n), Severity: tone})
		}
	}
	return kit.LinkTabs(p.ChildTasks.Link.FirstPage(), "filter", here, tabs...)
}

func (p Page) childTaskTable() kit.Table[fleet.Task] {
	return kit.Table[fleet.Task]{
		List: &p.ChildTasks.List, ID: "step-rows", Live: p.liveKey(), Every: "30s", Label: "Results", Type: "result", Head: kit.Column{Label: "Target"}, Items: p.ChildTasks.Tasks, EmptyContent: noChildTasksNote(p),
		Row: func(t *fleet.Task) kit.Row {
			return kit.Row{ID: "step-" + string(t.ID), Name: t.SubjectName, Href: cmp.Or(views.SubjectPath(t.Subject), views.TaskPath(t.ID))}
		},
		RowCells: row,
	}
}
