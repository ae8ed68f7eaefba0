package vmpages

import (
	"github.com/labstack/echo/v4"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/views"
	vmview "quantix/views/vm"
	"quantix/web/form"
)

type snapshotForm struct {
	Name        string `form:"name"`
	Description string `form:"description"`
	Memory      string `form:"memory"`
	Quiesce     string `form:"quiesce"`
	Start       string `form:"start"`
}

func (f snapshotForm) view() vmview.SnapshotForm {
	return vmview.SnapshotForm{Name: f.Name, Description: f.Description, Memory: f.Memory != "", Quiesce: f.Quiesce != "", Start: f.Start != ""}
}

// newSnapshotPage returns the data that all dialogs about a snapshot share. allows reports whether the dialog's action
// is possible and, if not, the reason.
func (s *Site) newSnapshotPage(c echo.Context, a fleet.Actor, in snapshotForm, how form.Display, allows func(vmview.SnapshotPage, []fleet.JobKind) (bool, string)) (vmview.SnapshotPage, error) {
	p, err := s.readVMPage(c, a, "")
	if err != nil {
		return vmview.SnapshotPage{}, err
	}
	out := vmview.SnapshotPage{VM: p.VM, Errors: how.Errors, In: in.view(), Subtree: c.QueryParam("subtree") != ""}
	if id := fleet.SnapshotID(c.Param("snapshot")); id != "" {
		if p.VM.Status == nil || p.VM.Status.Snapshots.SnapshotByID(id) == nil {
			return out, fleet.Errorf(fleet.NotFound, "The VM has no such snapshot any more. Reload the page.")
		}
		out.Snapshot, out.Below = *p.VM.Status.Snapshots.SnapshotByID(id), p.VM.Status.Snapshots.Descendants(id)
	}
	busy, err := s.Control.UnfinishedSnapshotJobKinds(c.Request().Context(), a, p.VM.ID)
	if err != nil {
		return out, err
	}
	_, out.Why = allows(out, busy)
	return out, nil
}

func (s *Site) ShowTakeSnapshotForm(c echo.Context, a fleet.Actor, in snapshotForm, how form.Display) error {
	p, err := s.newSnapshotPage(c, a, in, how, func(p vmview.SnapshotPage, busy []fleet.JobKind) (bool, string) { return p.VM.AllowsNewSnapshot(busy) })
	if err != nil {
		return err
	}
	if !how.WasRefused() {
		p.In.Memory = p.VM.HasGuest()
	}
	return s.ShowPageWithStatus(c, how.Status, a, vmPageLayout(p.VM), vmview.TakeSnapshotDialog(p))
}

func (s *Site) TakeSnapshot(c echo.Context, a fleet.Actor, in snapshotForm) (form.Response, error) {
	id := fleet.VMID(c.Param("id"))
	t, err := s.Control.TakeSnapshot(c.Request().Context(), a, id, control.NewSnapshot{
		Name: in.Name, Description: in.Description, Memory: in.Memory != "", Quiesce: in.Quiesce != "",
	})
	return stayOnSnapshotsTab(id, t), err
}

// stayOnSnapshotsTab returns the response after task t was queued: a message on the VM's snapshots tab.
func stayOnSnapshotsTab(id fleet.VMID, t fleet.Task) form.Response {
	return form.StayOnPage(views.TabPath(views.VMPath(id), "snapshots"), t.Title()+" "+t.SubjectName+": queued on "+t.HostName+".")
}

func (s *Site) ConfirmRevertSnapshot(c echo.Context, a fleet.Actor, in snapshotForm, how form.Display) error {
	p, err := s.newSnapshotPage(c, a, in, how, func(p vmview.SnapshotPage, busy []fleet.JobKind) (bool, string) {
		return p.VM.AllowsRevert(p.Snapshot, busy)
	})
	if err != nil {
		return err
	}
	if !how.WasRefused() {
		p.In.Start = p.VM.HasGuest()
	}
	return s.ShowPageWithStatus(c, how.Status, a, vmPageLayout(p.VM), vmview.RevertSnapshotDialog(p))
}

func (s *Site) RevertSnapshot(c echo.Context, a fleet.Actor, in snapshotForm) (form.Response, error) {
	id := fleet.VMID(c.Param("id"))
	t, err := s.Control.RevertSnapshot(c.Request().Context(), a, id, fleet.SnapshotID(c.Param("snapshot")), control.RevertSnapshot{Start: in.Start != ""})
	return stayOnSnapshotsTab(id, t), err
}

func (s *Site) ConfirmDeleteSnapshot(c echo.Context, a fleet.Actor, in snapshotForm, how form.Display) error {
	p, err := s.newSnapshotPage(c, a, in, how, func(p vmview.SnapshotPage, busy []fleet.JobKind) (bool, string) { return p.VM.AllowsSnapshots(busy) })
	if err != nil {
		return err
	}
	return s.ShowPageWithStatus(c, how.Status, a, vmPageLayout(p.VM), vmview.DeleteSnapshotDialog(p))
}

func (s *Site) DeleteSnapshot(c echo.Context, a fleet.Actor, _ snapshotForm) (form.Response, error) {
	id := fleet.VMID(c.Param("id"))
	t, err := s.Control.DeleteSnapshot(c.Request().Context(), a, id, fleet.SnapshotID(c.Param("snapshot")), c.QueryParam("subtree") != "")
	return stayOnSnapshotsTab(id, t), err
}

func (s *Site) ConsolidateSnapshots(c echo.Context, a fleet.Actor, _ form.EmptyForm) (form.Response, error) {
	id := fleet.VMID(c.Param("id"))
	t, err := s.Control.ConsolidateVM(c.Request().Context(), a, id)
	return stayOnSnapshotsTab(id, t), err
}
