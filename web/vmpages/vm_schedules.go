package vmpages

import (
	"slices"

	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
	"quantix/internal/schedules"
	"quantix/views"
	vmview "quantix/views/vm"
	"quantix/web/form"
)

// scheduleForm is the form of a snapshot schedule.
type scheduleForm struct {
	Name    string   `form:"name"`
	Enabled string   `form:"enabled"`
	Every   string   `form:"times.everyHours"`
	At      string   `form:"times.at"`
	Days    []string `form:"times.days"`
	Zone    string   `form:"times.zone"`
	Last    string   `form:"keep.last"`
	Hourly  string   `form:"keep.hourly"`
	Daily   string   `form:"keep.daily"`
	Weekly  string   `form:"keep.weekly"`
	With    string   `form:"with"` // "memory", "quiesce" or empty
	NameAs  string   `form:"nameAs"`
}

func (f scheduleForm) view() vmview.ScheduleForm {
	return vmview.ScheduleForm{
		Name: f.Name, Enabled: f.Enabled != "", Every: f.Every, At: f.At, Days: f.Days, Zone: f.Zone, Last: f.Last, Hourly: f.Hourly, Daily: f.Daily, Weekly: f.Weekly, With: f.With, NameAs: f.NameAs,
	}
}

// schedule returns the typed schedule. Invalid numbers are errors at their fields.
func (f scheduleForm) schedule() (schedules.SnapshotSchedule, error) {
	var checks fleet.Checks
	count := func(field, text string) int { return form.ParseField(&checks, field, text, form.ParseNumber) }
	out := schedules.SnapshotSchedule{
		Name: f.Name, Enabled: f.Enabled != "", Memory: f.With == "memory", Quiesce: f.With == "quiesce", NameAs: f.NameAs,
		Times: schedules.SnapshotTimes{EveryHours: count("times.everyHours", f.Every), At: f.At, Days: f.Days, Zone: f.Zone},
		Keep: schedules.SnapshotRetention{
			Last: count("keep.last", f.Last), Hourly: count("keep.hourly", f.Hourly), Daily: count("keep.daily", f.Daily), Weekly: count("keep.weekly", f.Weekly),
		},
	}
	return out, checks.Err()
}

// newSchedulePage returns the data that all dialogs about a schedule share. A new schedule has no id in the path.
func (s *Site) newSchedulePage(c echo.Context, a fleet.Actor, in scheduleForm, how form.Display) (vmview.SchedulePage, error) {
	p, err := s.readVMPage(c, a, "")
	if err != nil {
		return vmview.SchedulePage{}, err
	}
	out := vmview.SchedulePage{VM: p.VM, Errors: how.Errors, In: vmview.NewScheduleForm(), ID: schedules.ScheduleID(c.Param("schedule"))}
	if out.All, err = s.Control.SnapshotSchedules(c.Request().Context(), a, p.VM.ID); err != nil {
		return out, err
	}
	if out.ID != "" {
		i := slices.IndexFunc(out.All, func(v schedules.ScheduleView) bool { return v.ID == out.ID })
		if i < 0 {
			return out, fleet.Errorf(fleet.NotFound, "The VM has no such schedule any more. Reload the page.")
		}
		out.Stored, out.In = out.All[i], vmview.ScheduleFormOf(out.All[i].SnapshotSchedule)
	}
	if how.WasRefused() {
		out.In = in.view()
	}
	return out, nil
}

func (s *Site) ShowScheduleForm(c echo.Context, a fleet.Actor, in scheduleForm, how form.Display) error {
	p, err := s.newSchedulePage(c, a, in, how)
	if err != nil {
		return err
	}
	return s.ShowPageWithStatus(c, how.Status, a, vmPageLayout(p.VM), vmview.ScheduleDialog(p))
}

func (s *Site) ConfirmDeleteSchedule(c echo.Context, a fleet.Actor, _ form.EmptyForm, how form.Display) error {
	p, err := s.newSchedulePage(c, a, scheduleForm{}, form.Display{Status: how.Status, Errors: how.Errors})
	if err != nil {
		return err
	}
	return s.ShowPageWithStatus(c, how.Status, a, vmPageLayout(p.VM), vmview.DeleteScheduleDialog(p))
}

// SaveSchedule creates a schedule, or changes the one in the path.
func (s *Site) SaveSchedule(c echo.Context, a fleet.Actor, in scheduleForm) (form.Response, error) {
	vm, id := fleet.VMID(c.Param("id")), schedules.ScheduleID(c.Param("schedule"))
	spec, err := in.schedule()
	if err != nil {
		return nil, err
	}
	if id == "" {
		_, err = s.Control.AddSnapshotSchedule(c.Request().Context(), a, vm, spec)
	} else {
		err = s.Control.EditSnapshotSchedule(c.Request().Context(), a, vm, id, spec)
	}
	return stayOnSchedulesTab(vm, "The schedule "+spec.Name+" is saved."), err
}

func (s *Site) DeleteSchedule(c echo.Context, a fleet.Actor, _ form.EmptyForm) (form.Response, error) {
	vm := fleet.VMID(c.Param("id"))
	err := s.Control.DeleteSnapshotSchedule(c.Request().Context(), a, vm, schedules.ScheduleID(c.Param("schedule")))
	return stayOnSchedulesTab(vm, "The schedule is deleted; its snapshots stay."), err
}

func (s *Site) EnableSchedule(c echo.Context, a fleet.Actor, _ form.EmptyForm) (form.Response, error) {
	return s.setScheduleEnabled(c, a, true, "enabled")
}

func (s *Site) DisableSchedule(c echo.Context, a fleet.Actor, _ form.EmptyForm) (form.Response, error) {
	return s.setScheduleEnabled(c, a, false, "disabled")
}

func (s *Site) setScheduleEnabled(c echo.Context, a fleet.Actor, to bool, word string) (form.Response, error) {
	ctx, vm, id := c.Request().Context(), fleet.VMID(c.Param("id")), schedules.ScheduleID(c.Param("schedule"))
	all, err := s.Control.SnapshotSchedules(ctx, a, vm)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(v schedules.ScheduleView) bool { return v.ID == id })
	if i < 0 {
		return nil, fleet.Errorf(fleet.NotFound, "The VM has no such schedule any more. Reload the page.")
	}
	spec := all[i].SnapshotSchedule
	spec.Enabled = to
	return stayOnSchedulesTab(vm, "The schedule "+spec.Name+" is "+word+"."), s.Control.EditSnapshotSchedule(ctx, a, vm, id, spec)
}

func stayOnSchedulesTab(vm fleet.VMID, text string) form.Response {
	return form.StayOnPage(views.TabPath(views.VMPath(vm), "snapshots"), text)
}
