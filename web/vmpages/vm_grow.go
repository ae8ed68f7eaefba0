package vmpages

import (
	"github.com/labstack/echo/v4"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/views"
	"quantix/views/kit"
	vmview "quantix/views/vm"
	"quantix/web/form"
	"quantix/web/options"
)

type growDiskForm struct {
	Size       string `form:"size"`
	Unit       string `form:"unit"`
	Overcommit string `form:"overcommit"`
}

func (s *Site) ShowGrowDiskForm(c echo.Context, a fleet.Actor, in growDiskForm, how form.Display) error {
	p, disk, number, err := s.diskFromRequest(c, a)
	if err != nil {
		return err
	}
	pool, err := s.Control.GetPool(c.Request().Context(), a, disk.PoolID)
	if err != nil {
		return err
	}
	out := vmview.GrowDiskPage{
		VM: p.VM, Disk: disk, Number: number, Pool: pool.Name, Errors: how.Errors, In: vmview.GrowDiskForm{Size: in.Size, Unit: in.Unit, Overcommit: in.Overcommit != ""},
	}
	if pool.Health.CapacityBytes > 0 {
		out.Room = "The pool has " + options.PoolFreeSpaceText(pool.Health) + "."
	}
	if _, out.Why = p.VM.AllowsDiskGrowth(out.Disk, nil); !how.WasRefused() {
		out.In.Size, out.In.Unit = form.DiskSizeText(p.VM.DiskBytes(out.Disk))
	}
	return s.ShowPageWithStatus(c, how.Status, a, vmPageLayout(p.VM), vmview.GrowDiskDialog(out))
}

func (s *Site) GrowDisk(c echo.Context, a fleet.Actor, in growDiskForm) (form.Response, error) {
	var checks fleet.Checks
	order := control.GrowDisk{SizeBytes: form.ParseField(&checks, "sizeBytes", in.Size, form.ParseDiskSizeIn(in.Unit)), Overcommit: in.Overcommit != ""}
	if err := checks.Err(); err != nil {
		return nil, err
	}
	id := fleet.VMID(c.Param("id"))
	vm, _, err := s.Control.GrowDisk(c.Request().Context(), a, id, form.ParseVolumeValue(c.QueryParam("disk")), order)
	return form.StayOnPage(views.VMPath(id), "The disk grows to "+kit.Bytes(order.SizeBytes)+": queued on "+hostNameInText(vm)+"."), err
}

// hostNameInText returns the name of the VM's host, or "its host" for users who may not see hosts.
func hostNameInText(vm fleet.VMView) string {
	if vm.HostName == "" {
		return "its host"
	}
	return vm.HostName
}
