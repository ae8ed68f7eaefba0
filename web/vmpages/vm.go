package vmpages

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views"
	consoleview "quantix/views/console"
	"quantix/views/kit"
	"quantix/views/shell"
	vmview "quantix/views/vm"
	"quantix/web/form"
	"quantix/web/render"
)

// vmActions returns all actions on a VM, each with the reason if the user cannot start the action now.
func vmActions(a fleet.Actor, vm fleet.VMView) []fleet.ActionState {
	return policy.RestrictActions(a, "vm", vm.ProjectID, vm.Actions())
}

// guestActions returns all actions of the guest agent, each with the reason if the user cannot start the action now.
func guestActions(a fleet.Actor, vm fleet.VMView) []fleet.ActionState {
	return policy.RestrictActions(a, "vm", vm.ProjectID, vm.GuestActions())
}

// vmPageLayout returns the layout of the VM's pages. The tree marks the VM, below its host.
func vmPageLayout(vm fleet.VMView) shell.PageLayout {
	return shell.PageLayout{Title: vm.Name, ObjectKeys: []string{
		"project:" + string(vm.ProjectID), "host:" + string(vm.HostID), "vm:" + string(vm.ID),
	}}
}

// readVMPage reads the VM in the path, and the data that every tab of the VM's page shows.
func (s *Site) readVMPage(c echo.Context, a fleet.Actor, tab string) (vmview.Page, error) {
	vm, err := s.Control.GetVM(c.Request().Context(), a, fleet.VMID(c.Param("id")))
	return vmview.Page{VM: vm, Tab: tab, Now: time.Now(), Actor: a, Actions: vmActions(a, vm), GuestActions: guestActions(a, vm), MaySeeHosts: policy.May(a, policy.InfraSee, ""), PlaceWhy: setHostRefusal(a), MoveWhy: moveDisksRefusal(a), MigrateWhy: migrationRefusal(a)}, err
}

func setHostRefusal(a fleet.Actor) string {
	if policy.May(a, policy.InfraChange, "") {
		return ""
	}
	return "Only users who may change hosts can set which host a VM is on."
}

func moveDisksRefusal(a fleet.Actor) string {
	if policy.May(a, policy.InfraChange, "") {
		return ""
	}
	return "Only users who may change hosts can move disks between pools."
}

func migrationRefusal(a fleet.Actor) string {
	if policy.May(a, policy.InfraChange, "") {
		return ""
	}
	return "Only users who may change hosts can migrate VMs."
}

func (s *Site) VMPage(c echo.Context, a fleet.Actor) error {
	tab := c.QueryParam("tab")
	if tab == "" {
		tab = "summary"
	}
	p, err := s.readVMPage(c, a, tab)
	if err != nil {
		return err
	}
	if render.HTMXTarget(c) != "vm-head" {
		if err := s.fillVMTab(c, a, &p); err != nil {
			return err
		}
	}
	layout := vmPageLayout(p.VM)
	if tab == "monitor" {
		layout.Scripts = []string{kit.ChartScript}
		if p.Alarms, err = s.Control.AlarmsOf(c.Request().Context(), a, fleet.SubjectVM(p.VM.ID)); err != nil {
			return err
		}
	}
	return s.ShowPage(c, a, layout, vmview.VMPage(p))
}

// fillVMTab reads the data of the page's current tab.
func (s *Site) fillVMTab(c echo.Context, a fleet.Actor, p *vmview.Page) (err error) {
	ctx := c.Request().Context()
	switch p.Tab {
	case "summary":
		if p.Retry, err = s.Control.VMRetry(ctx, a, p.VM.ID); err == nil {
			p.Pools, err = s.poolNamesOfVM(ctx, a, p.VM)
		}
		if err == nil && len(p.VM.Spec.NICs) > 0 {
			p.Filters, err = s.Control.NICFilterStates(ctx, a, p.VM.ID)
		}
		if err == nil {
			p.NICs, err = s.Control.VMAddresses(ctx, a, p.VM.ID)
		}
		if err == nil && p.MaySeeHosts && len(p.VM.Spec.DeviceClasses) > 0 {
			p.Devices, err = s.Control.AllocatedDevices(ctx, a, p.VM.ID)
		}
		if err == nil && p.VM.HasGuest() {
			p.Guest, err = s.Control.VMGuest(ctx, a, p.VM.ID)
		}
		if err == nil && p.MoveWhy == "" {
			p.DiskMigrations, err = s.Control.DiskMigrationsInProgress(ctx, a, p.VM.ID)
		}
		if err == nil && p.MigrateWhy == "" {
			p.RunningMigration, err = s.Control.MigrationInProgress(ctx, a, p.VM.ID)
		}
	case "configure":
		if p.Edit, err = s.newEditForm(c, a, p.VM); err == nil {
			p.Pools, err = s.poolNamesOfVM(ctx, a, p.VM)
		}
	case "snapshots":
		if p.UnfinishedSnapshotJobs, err = s.Control.UnfinishedSnapshotJobKinds(ctx, a, p.VM.ID); err == nil {
			p.Schedules, err = s.Control.SnapshotSchedules(ctx, a, p.VM.ID)
		}
	case "events":
		history, err := s.Control.VMHistory(ctx, a, p.VM.ID)
		p.Audit, p.Tasks = history.Audit, history.Jobs
		return err
	case "monitor":
		p.ChartRange = c.QueryParam("range")
		m, err := s.Control.VMMeter(ctx, a, p.VM.ID)
		if m != nil {
			p.Meter = &vmview.LoadSample{At: m.At, Meter: m.Meter, CPUPercent: m.CPUPercent}
		}
		return err
	default:
		return fleet.Errorf(fleet.NotFound, "A VM's page has no view %q.", p.Tab)
	}
	return err
}

// poolNamesOfVM returns the names of the pools with the VM's disks and ISO, by pool id.
func (s *Site) poolNamesOfVM(ctx context.Context, a fleet.Actor, vm fleet.VMView) (map[fleet.PoolID]string, error) {
	return s.Control.PoolNames(ctx, a, vm.Spec.Pools())
}

func (s *Site) ConsolePage(c echo.Context, a fleet.Actor) error {
	p, err := s.readVMPage(c, a, "console")
	if err != nil {
		return err
	}
	p.People = consoleview.People{Actor: a, Own: fleet.PairID(c.QueryParam("session")), Keys: string(fleet.SubjectVM(p.VM.ID)), Href: views.VMPath(p.VM.ID, "console")}
	if p.People.Sessions, err = s.Control.OpenConsoleSessions(c.Request().Context(), a, p.VM.ID); err != nil {
		return err
	}
	f := vmPageLayout(p.VM)
	f.Scripts = []string{"bundle/console.js"}
	if c.QueryParam("window") == "" {
		return s.ShowPage(c, a, f, vmview.VMPage(p))
	}
	f.Title, f.Actor, f.Now = "Console of "+p.VM.Name, a, p.Now
	return s.WritePage(c, http.StatusOK, shell.FullWindowPage(f, vmview.ConsoleWindow(p)))
}

// VMMetrics answers with the metrics of a chart range.
func (s *Site) VMMetrics(c echo.Context, a fleet.Actor) error {
	m, err := s.Control.VMMetrics(c.Request().Context(), a, fleet.VMID(c.Param("id")), render.RequestedMetrics(c))
	return render.WriteMetrics(c, m, err)
}

func (s *Site) VMMenu(c echo.Context, a fleet.Actor) error {
	p, err := s.readVMPage(c, a, "")
	if err != nil {
		return err
	}
	return s.WriteFragment(c, a, p.VM.Name, vmview.ActionMenu(p))
}

type vmActionForm struct {
	Action     fleet.Action `form:"action"`
	Overcommit string       `form:"overcommit"`
}

// StartVMAction requests a power action. If the host has not enough capacity for a start, and the user may overcommit
// the host, a dialog offers that.
func (s *Site) StartVMAction(c echo.Context, a fleet.Actor, in vmActionForm) (form.Response, error) {
	id := fleet.VMID(c.Param("id"))
	job, err := s.Control.RequestPowerActionWith(c.Request().Context(), a, id, in.Action, control.PowerOptions{Overcommit: in.Overcommit != ""})
	if e, _, ok := form.ErrorsFrom(err); ok && e.At("overcommit") != "" && in.Overcommit == "" {
		return form.OpenDialog(func(c echo.Context) error {
			p, err := s.readVMPage(c, a, "")
			if err != nil {
				return err
			}
			return s.ShowPage(c, a, vmPageLayout(p.VM), vmview.OvercommitDialog(p.VM, e.At("action")))
		}), nil
	}
	return form.StayOnPage(views.VMPath(id), in.Action.Label()+" "+job.SubjectName+": queued on "+cmp.Or(job.HostName, "its host")+"."), err
}

type deleteVMForm struct {
	Disks string `form:"disks"`

	Permanent string `form:"permanent"` // past the recycle bin
	Confirm   string `form:"confirm"`
}

func (s *Site) ConfirmDeleteVM(c echo.Context, a fleet.Actor, in deleteVMForm, how form.Display) error {
	p, err := s.readVMPage(c, a, "")
	if err != nil {
		return err
	}
	d := vmview.DeletePage{VM: p.VM, Disks: in.Disks, Errors: how.Errors}
	settings, err := s.Control.BinSettings(c.Request().Context(), a, p.VM.ProjectID)
	if err != nil {
		return err
	}
	d.Bin = vmview.DeletionBin{Days: settings.Days, Permanent: in.Permanent != ""}
	if d.Pools, err = s.poolNamesOfVM(c.Request().Context(), a, p.VM); err != nil {
		return err
	}
	return s.ShowPageWithStatus(c, how.Status, a, vmPageLayout(p.VM), vmview.DeleteDialog(d))
}

func (s *Site) DeleteVM(c echo.Context, a fleet.Actor, in deleteVMForm) (form.Response, error) {
	vm, err := s.Control.GetVM(c.Request().Context(), a, fleet.VMID(c.Param("id")))
	if may, _ := vm.Allows(fleet.ActDelete); err == nil && may && vm.HasGuest() && in.Confirm != vm.Name {
		err = nameMismatchError(vm.Name)
	}
	switch {
	case err != nil:
	case in.Disks == "delete" && in.Permanent != "":
		_, err = s.Control.DeleteVMPermanently(c.Request().Context(), a, vm.ID, in.Confirm)
	default:
		_, err = s.Control.DeleteVM(c.Request().Context(), a, vm.ID, in.Disks == "delete", in.Confirm)
	}
	return form.RedirectTo("/vms"), err
}

// nameMismatchError returns the error for a deletion dialog where the typed name differs from the VM's name.
func nameMismatchError(name string) error {
	var checks fleet.Checks
	checks.Add("confirm", "Type %s to confirm: the VM is running and will be powered off.", name)
	return checks.Err()
}
