package vm

import (
	"strconv"

	"quantix/internal/fleet"
	"quantix/internal/schedules"
	"quantix/views"
	"quantix/views/kit"
)

// SchedulePage is the dialog of a VM's snapshot schedule.
type SchedulePage struct {
	VM     fleet.VMView
	ID     schedules.ScheduleID // empty: a new schedule
	Stored schedules.ScheduleView
	All    []schedules.ScheduleView
	In     ScheduleForm
	Errors kit.Errors
}

// ScheduleForm holds the values that a person typed in the dialog of a snapshot schedule.
type ScheduleForm struct {
	Name, Every, At, Zone       string
	Days                        []string
	Last, Hourly, Daily, Weekly string
	With, NameAs                string
	Enabled                     bool
}

// NewScheduleForm is the form of a new schedule with common defaults.
func NewScheduleForm() ScheduleForm {
	return ScheduleForm{Name: "nightly", Enabled: true, Every: "0", At: "03:00", Zone: "UTC", Last: "3", Hourly: "0", Daily: "0", Weekly: "0"}
}

// ScheduleFormOf is the form of an existing schedule.
func ScheduleFormOf(s schedules.SnapshotSchedule) ScheduleForm {
	out := ScheduleForm{
		Name: s.Name, Enabled: s.Enabled, Every: strconv.Itoa(s.Times.EveryHours), At: s.Times.At, Days: s.Times.Days, Zone: s.Times.Zone, NameAs: s.NameAs,
		Last: strconv.Itoa(s.Keep.Last), Hourly: strconv.Itoa(s.Keep.Hourly), Daily: strconv.Itoa(s.Keep.Daily), Weekly: strconv.Itoa(s.Keep.Weekly),
	}
	switch {
	case s.Memory:
		out.With = "memory"
	case s.Quiesce:
		out.With = "quiesce"
	}
	return out
}

var intervalOptions = []kit.Option{
	{Value: "0", Text: "Once a day"},
	{Value: "1", Text: "Every hour"},
	{Value: "2", Text: "Every 2 hours"},
	{Value: "3", Text: "Every 3 hours"},
	{Value: "4", Text: "Every 4 hours"},
	{Value: "6", Text: "Every 6 hours"},
	{Value: "8", Text: "Every 8 hours"},
	{Value: "12", Text: "Every 12 hours"},
}

var weekdayOptions = []kit.Option{{Value: "mon", Text: "Mon"}, {Value: "tue", Text: "Tue"}, {Value: "wed", Text: "Wed"}, {Value: "thu", Text: "Thu"}, {Value: "fri", Text: "Fri"}, {Value: "sat", Text: "Sat"}, {Value: "sun", Text: "Sun"}}

var scheduleContentOptions = []kit.Option{
	{Value: "", Text: "Disks, crash-consistent"},
	{Value: "quiesce", Text: "Disks, quiesced if the guest agent responds"},
	{Value: "memory", Text: "Disks and memory; the guest is paused meanwhile"},
}

// maxSnapshots is the maximum number of snapshots of this schedule: the VM's limit minus the snapshots of its other
// schedules.
func (p SchedulePage) maxSnapshots() int {
	left := schedules.MaxScheduledSnapshots
	for _, s := range p.All {
		if s.ID != p.ID {
			left -= s.Keep.MaxKept()
		}
	}
	return left
}

func (p SchedulePage) path(below ...string) string {
	return views.VMPath(p.VM.ID, append([]string{"schedules"}, below...)...)
}

func (p SchedulePage) dialog() kit.Dialog {
	d := kit.Dialog{Title: "New snapshot schedule of " + p.VM.Name, Button: "Create schedule", Help: kit.HelpSchedules, Back: views.TabPath(views.VMPath(p.VM.ID), "snapshots"), Action: p.path("new")}
	if p.ID != "" {
		d.Title, d.Button, d.Action = "Edit the schedule “"+p.Stored.Name+"”", "Save", p.path(string(p.ID))
	}
	return d
}

func (p SchedulePage) deleteDialog() kit.Dialog {
	d := p.dialog()
	d.Title, d.Button, d.Danger, d.Action = "Delete the schedule “"+p.Stored.Name+"”?", "Delete", true, p.path(string(p.ID), "delete")
	return d
}

func (p Page) addScheduleAction() kit.ActionButton {
	a := kit.ActionButton{Icon: "clock", Word: "Add schedule…", Href: p.path("schedules", "new"), Dialog: true}
	if len(p.Schedules) >= schedules.MaxSchedules {
		a.Why = "The VM has " + strconv.Itoa(len(p.Schedules)) + " schedules, which is the maximum."
	}
	return a.DisableFrom(p.Actions, fleet.ActEdit)
}

func (p Page) scheduleActions(s schedules.ScheduleView) []kit.ActionButton {
	at := func(what ...string) string { return p.path(append([]string{"schedules", string(s.ID)}, what...)...) }
	turn := kit.ActionButton{Icon: "play", Word: "Enable", Post: at("enable"), Back: p.tabPath()}
	if s.Enabled {
		turn = kit.ActionButton{Icon: "pause", Word: "Disable", Post: at("disable"), Back: p.tabPath()}
	}
	return []kit.ActionButton{
		kit.ActionButton{Icon: "pencil", Word: "Edit…", Href: at(), Dialog: true}.DisableFrom(p.Actions, fleet.ActEdit),
		turn.DisableFrom(p.Actions, fleet.ActEdit),
		kit.ActionButton{Icon: "trash-2", Word: "Delete…", Href: at("delete"), Dialog: true, Danger: true}.DisableFrom(p.Actions, fleet.ActEdit),
	}
}

// retentionText describes how many snapshots the schedule keeps, and the snapshots' options.
func retentionText(s schedules.ScheduleView) string {
	out := s.Keep.Text()
	switch {
	case s.Memory:
		out += ", with memory"
	case s.Quiesce:
		out += ", quiesced"
	}
	return out
}

func missedRunsText(s schedules.ScheduleView) string {
	if s.Missed == 0 {
		return ""
	}
	return kit.CountText(s.Missed, "earlier time") + " missed"
}
