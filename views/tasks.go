package views

import (
	"time"

	"quantix/internal/fleet"
)

// TasksPage is the list of tasks.
type TasksPage struct {
	Link   Link
	Filter Filter
	Tasks  []fleet.Job
	Next   string
	After  string
	Now    time.Time
}

func (p TasksPage) tabs() []Tab {
	l := p.Link.Without("after", "filter")
	tab := func(word, filter string) Tab {
		return Tab{Text: word, Href: l.With("filter", filter).String(), Here: p.Filter.Value == filter}
	}
	return []Tab{tab("All", ""), tab("Mine", "who:me"), tab("Running", "state:queued,running"), tab("Failed", "state:failed,unknown")}
}

func (p TasksPage) pager() Pager {
	out := Pager{Text: Count(len(p.Tasks), "task") + " on this page, newest first"}
	if p.After != "" {
		out.First = p.Link.Without("after").String()
	}
	if p.Next != "" {
		out.Next = p.Link.With("after", p.Next).String()
	}
	return out
}

// TaskPage is one task.
type TaskPage struct {
	Task   fleet.Job
	Now    time.Time
	Cancel fleet.ActionState // whether it can be taken back
}
