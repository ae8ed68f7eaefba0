package pages

import (
	"cmp"
	"net/url"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/views"
	hostview "quantix/views/host"
	"quantix/web/form"
)

// maintenanceForm holds the decisions by VM, as chosen: see hostview.DecisionValue.
type maintenanceForm struct {
	decisions  map[fleet.VMID]string
	overcommit bool
	setGroup   string // a button sets the decisions of this group of VMs to setTo
	setTo      string
	redrawOnly bool // the button only shows the changed plan
}

// ReadForm reads the fields "decision.<VM ID>" and "overcommit", and the buttons "set" and "limits", which change them.
func (f *maintenanceForm) ReadForm(sent url.Values) {
	f.overcommit = cmp.Or(sent.Get("limits"), sent.Get("overcommit")) == hostview.Overcommit
	f.setGroup = sent.Get("set")
	f.setTo = sent.Get("all." + f.setGroup)
	f.redrawOnly = f.setGroup != "" || sent.Has("limits")
	f.decisions = map[fleet.VMID]string{}
	for name := range sent {
		if id, ok := strings.CutPrefix(name, "decision."); ok && sent.Get(name) != "" {
			f.decisions[fleet.VMID(id)] = sent.Get(name)
		}
	}
}

func (s *Site) ShowMaintenanceForm(c echo.Context, a fleet.Actor, in maintenanceForm, how form.Display) error {
	ctx := c.Request().Context()
	h, err := s.Control.GetHost(ctx, a, fleet.HostID(c.Param("id")))
	if err != nil {
		return err
	}
	p := hostview.MaintenancePage{Host: h, Chosen: in.decisions, Errors: how.Errors}
	if _, p.Why = h.Allows(fleet.ActEnterMaintenance); p.Why == "" {
		if p.Plan, err = s.Control.PlanMaintenance(ctx, a, h.ID, in.overcommit); err != nil {
			return err
		}
		if in.setGroup != "" {
			p.SetAll(in.setGroup, in.setTo)
		}
	}
	return s.ShowPageWithStatus(c, how.Status, a, hostPageLayout(h), hostview.MaintenanceDialog(p))
}

func (s *Site) EnterMaintenance(c echo.Context, a fleet.Actor, in maintenanceForm) (form.Response, error) {
	if in.redrawOnly {
		return func(c echo.Context) error { return s.ShowMaintenanceForm(c, a, in, form.FirstDisplay) }, nil
	}
	decisions := map[fleet.VMID]fleet.MaintenanceDecision{}
	for id, text := range in.decisions {
		decisions[id] = hostview.ParseDecision(text)
	}
	id := fleet.HostID(c.Param("id"))
	task, err := s.Control.EnterMaintenance(c.Request().Context(), a, id, control.EnterMaintenance{Decisions: decisions, Overcommit: in.overcommit})
	return form.StayOnPage(views.HostPath(id), task.SubjectName+" is entering maintenance."), err
}

type leaveMaintenanceForm struct {
	BringBack []string `form:"bringBack"`
	Listed    string   `form:"listed"` // the form listed VMs that moved
}

func (s *Site) ShowLeaveMaintenanceForm(c echo.Context, a fleet.Actor, in leaveMaintenanceForm, how form.Display) error {
	ctx := c.Request().Context()
	h, err := s.Control.GetHost(ctx, a, fleet.HostID(c.Param("id")))
	if err != nil {
		return err
	}
	p := hostview.LeaveMaintenancePage{Host: h, Errors: how.Errors, Keep: map[fleet.VMID]bool{}}
	if ok, _ := h.Allows(fleet.ActLeaveMaintenance); ok {
		if p.Plan, err = s.Control.PlanLeave(ctx, a, h.ID); err != nil {
			return err
		}
	}
	for _, vm := range p.Plan.Moved {
		p.Keep[vm.ID] = in.Listed != "" && !slices.Contains(in.BringBack, string(vm.ID))
	}
	return s.ShowPageWithStatus(c, how.Status, a, hostPageLayout(h), hostview.LeaveMaintenanceDialog(p))
}

func (s *Site) LeaveMaintenance(c echo.Context, a fleet.Actor, in leaveMaintenanceForm) (form.Response, error) {
	ids := make([]fleet.VMID, len(in.BringBack))
	for i, id := range in.BringBack {
		ids[i] = fleet.VMID(id)
	}
	id := fleet.HostID(c.Param("id"))
	task, err := s.Control.LeaveMaintenance(c.Request().Context(), a, id, ids)
	return form.StayOnPage(views.HostPath(id), task.SubjectName+" has left maintenance."), err
}

type hostPowerForm struct {
	Confirm string `form:"confirm"`
}

// ConfirmHostPower returns the function that shows the dialog before a host is rebooted or shut down.
func (s *Site) ConfirmHostPower(act fleet.Action) form.Renderer[hostPowerForm] {
	return func(c echo.Context, a fleet.Actor, _ hostPowerForm, how form.Display) error {
		ctx := c.Request().Context()
		h, err := s.Control.GetHost(ctx, a, fleet.HostID(c.Param("id")))
		if err != nil {
			return err
		}
		progress, err := s.Control.MaintenanceProgress(ctx, a, h.ID)
		if err != nil {
			return err
		}
		p := hostview.PowerPage{Host: h, Act: act, Running: append(progress.Remaining, progress.Left...), Errors: how.Errors}
		return s.ShowPageWithStatus(c, how.Status, a, hostPageLayout(h), hostview.HostPowerDialog(p))
	}
}

// PowerHost returns the function that requests the reboot or the power-off of a host.
func (s *Site) PowerHost(act fleet.Action) form.Action[hostPowerForm] {
	return func(c echo.Context, a fleet.Actor, in hostPowerForm) (form.Response, error) {
		id := fleet.HostID(c.Param("id"))
		task, err := s.Control.RequestHostPower(c.Request().Context(), a, id, act, in.Confirm)
		return form.StayOnPage(views.HostPath(id), task.Title()+" "+task.SubjectName+": queued."), err
	}
}
