package vmpages

import (
	"context"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/views/kit"
	"quantix/views/shell"
	vmview "quantix/views/vm"
	"quantix/views/vmlist"
	"quantix/web/form"
	"quantix/web/options"
	"quantix/web/render"
)

type bulkActionForm struct {
	Action fleet.Action `form:"action"`
	IDs    []fleet.VMID `form:"id"`
	Back   string       `form:"back"`

	Confirmed string `form:"sure"` // empty: the dialog is not confirmed yet
	Disks     string `form:"disks"`
	Permanent string `form:"permanent"` // past the recycle bin
	Recycle   string `form:"recycle"`   // the dialog said that the VMs go into the recycle bin
	Confirm   string `form:"confirm"`
	Host      string `form:"host"`
	Rate      string `form:"rate"`
	ExpiresAt string `form:"expiresAt"`
	snapshotForm
}

// StartBulkAction starts one action on many VMs and redirects to the task's page, so that a reload does not repeat the
// action. Destructive actions, and actions that need more input, show a dialog first.
func (s *Site) StartBulkAction(c echo.Context, a fleet.Actor, in bulkActionForm) (form.Response, error) {
	if in.Action == vmlist.BulkCompare {
		return redirectToComparison(in.IDs)
	}
	if in.Confirmed == "" && vmlist.BulkActionOpensDialog(in.Action) {
		return func(c echo.Context) error { return s.ShowBulkActionDialog(c, a, in, form.FirstDisplay) }, nil
	}
	if in.Action == vmlist.BulkRenew {
		return s.renewVMs(c.Request().Context(), a, in)
	}
	task, err := s.queueBulkAction(c.Request().Context(), a, in)
	return form.RedirectTo(kit.Link{Path: "/tasks/" + string(task.ID)}.With("back", render.LocalPathOrRoot(in.Back)).String()), err
}

// redirectToComparison redirects to the comparison of the selected VMs. If only one VM is selected, the user chooses
// the other one on that page.
func redirectToComparison(ids []fleet.VMID) (form.Response, error) {
	switch len(ids) {
	case 0:
		return nil, fleet.Errorf(fleet.Malformed, "Select two VMs to compare.")
	case 1:
		return form.RedirectTo(kit.Link{Path: "/vms/compare"}.With("id", string(ids[0])).String()), nil
	case 2:
		return form.RedirectTo(kit.Link{Path: "/vms/compare"}.With("id", string(ids[0])).With("with", string(ids[1])).String()), nil
	}
	return nil, fleet.Errorf(fleet.Malformed, "Only two VMs can be compared. Select two, not %d.", len(ids))
}

func (s *Site) queueBulkAction(ctx context.Context, a fleet.Actor, in bulkActionForm) (fleet.Task, error) {
	switch in.Action {
	case fleet.ActDelete:
		vms, err := s.Control.VMsByID(ctx, a, in.IDs)
		if err != nil {
			return fleet.Task{}, err
		}
		p := vmlist.BulkActionPage{VMs: vms}
		if (in.Disks == "delete" || p.RunningCount() > 0) && strings.TrimSpace(in.Confirm) != p.ConfirmationNumber() {
			var checks fleet.Checks
			checks.Add("confirm", "Type %s, the number of VMs, to delete them.", p.ConfirmationNumber())
			return fleet.Task{}, checks.Err()
		}
		return s.Control.DeleteVMs(ctx, a, in.IDs, control.VMDeletion{Disks: in.Disks == "delete", Permanent: in.Permanent != "", Recycle: in.Recycle != ""})
	case fleet.ActRelease:
		return s.Control.ReleaseVMs(ctx, a, in.IDs)
	case vmlist.BulkSnapshot:
		return s.Control.SnapshotVMs(ctx, a, in.IDs, control.NewSnapshot{
			Name: in.Name, Description: in.Description, Memory: in.Memory != "", Quiesce: in.Quiesce != "",
		})
	case vmlist.BulkMigrate:
		var checks fleet.Checks
		order := control.MigrateVM{HostID: fleet.HostID(in.Host), RateBytes: form.ParseField(&checks, "rateBytes", in.Rate, parseTransferRate)}
		if err := checks.Err(); err != nil {
			return fleet.Task{}, err
		}
		return s.Control.MigrateVMs(ctx, a, in.IDs, order)
	}
	if in.Action == vmlist.BulkStartByOvercommit {
		return s.Control.RequestPowerActionsWith(ctx, a, fleet.ActStart, in.IDs, control.PowerOptions{Overcommit: true})
	}
	return s.Control.RequestPowerActions(ctx, a, in.Action, in.IDs)
}

// ShowBulkActionDialog shows the dialog that asks for the details of an action on many VMs, or for its confirmation.
func (s *Site) ShowBulkActionDialog(c echo.Context, a fleet.Actor, in bulkActionForm, how form.Display) error {
	ctx := c.Request().Context()
	if !vmlist.BulkActionOpensDialog(in.Action) {
		return fleet.Errorf(fleet.Invalid, "%s", how.Errors.Form)
	}
	vms, err := s.Control.VMsByID(ctx, a, in.IDs)
	if err != nil {
		return err
	}
	if len(vms) == 0 {
		return fleet.Errorf(fleet.NotFound, "None of these VMs exists any more. Reload the page.")
	}
	p := vmlist.BulkActionPage{Action: in.Action, VMs: vms, Back: render.LocalPathOrRoot(in.Back), Errors: how.Errors, In: vmlist.BulkActionForm{
		Disks: in.Disks, Name: in.Name, Description: in.Description, Host: in.Host, Rate: in.Rate, Expires: in.ExpiresAt, Memory: in.Memory != "", Quiesce: in.Quiesce != "",
	}}
	if in.Action == fleet.ActDelete {
		if p.Bin, err = s.deletionBin(ctx, a, vms, in.Permanent != ""); err != nil {
			return err
		}
	}
	if in.Action == vmlist.BulkMigrate {
		if p.Hosts, err = s.Options.Choices(ctx, a, options.Query{Kind: "hosts", Chosen: []string{in.Host}, FormAddress: "/vms"}); err != nil {
			return err
		}
		if len(p.Hosts.Options) > 0 && p.Hosts.Options[0].Value == "" {
			p.Hosts.Options[0].Text = "Best host of each VM"
		}
		if len(in.IDs) <= control.MaxPlannedMigrations {
			if p.Plans, err = s.Control.PlanMigrations(ctx, a, in.IDs); err != nil {
				return err
			}
		}
	}
	return s.ShowPageWithStatus(c, how.Status, a, shell.PageLayout{Title: "Virtual machines"}, vmlist.BulkActionDialog(p))
}

// RedirectOldBulkPage redirects addresses of bulk results, as used by older versions, to the pages of the tasks.
func (s *Site) RedirectOldBulkPage(c echo.Context, _ fleet.Actor) error {
	l := kit.Link{Path: "/tasks/" + c.Param("id")}
	return c.Redirect(http.StatusMovedPermanently, l.With("back", render.LocalPathOrRoot(c.QueryParam("back"))).String())
}

// deletionBin returns the recycle bin of the VMs' projects with the most days.
func (s *Site) deletionBin(ctx context.Context, a fleet.Actor, vms []fleet.VMView, permanent bool) (vmview.DeletionBin, error) {
	out, read := vmview.DeletionBin{Permanent: permanent}, map[fleet.ProjectID]bool{}
	for _, vm := range vms {
		if read[vm.ProjectID] {
			continue
		}
		read[vm.ProjectID] = true
		settings, err := s.Control.BinSettings(ctx, a, vm.ProjectID)
		if err != nil {
			return out, err
		}
		out.Days = max(out.Days, settings.Days)
	}
	return out, nil
}
