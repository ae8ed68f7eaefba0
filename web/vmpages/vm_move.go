package vmpages

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/views"
	vmview "quantix/views/vm"
	"quantix/web/form"
)

type moveDiskForm struct {
	Pool       string `form:"pool"`
	Rate       string `form:"rate"`
	Overcommit string `form:"overcommit"`
}

func (s *Site) ShowMoveDiskForm(c echo.Context, a fleet.Actor, in moveDiskForm, how form.Display) error {
	ctx := c.Request().Context()
	p, disk, number, err := s.diskFromRequest(c, a)
	if err != nil {
		return err
	}
	out := vmview.MoveDiskPage{
		VM: p.VM, Disk: disk, Number: number, Errors: how.Errors,
		In: vmview.MoveDiskForm{Pool: in.Pool, Rate: in.Rate, Overcommit: in.Overcommit != ""},
	}
	pools, err := s.poolNamesOfVM(ctx, a, p.VM)
	if err != nil {
		return err
	}
	moving, err := s.Control.DiskMigrationsInProgress(ctx, a, p.VM.ID)
	if err != nil {
		return err
	}
	out.Pool = pools[disk.PoolID]
	if _, out.Why = p.VM.AllowsDiskMigration(disk.Ref(), moving); out.Why == "" {
		if out.Targets, err = s.Control.MoveTargets(ctx, a, p.VM.ID, disk.Ref()); err != nil {
			return err
		}
	}
	return s.ShowPageWithStatus(c, how.Status, a, vmPageLayout(p.VM), vmview.MoveDiskDialog(out))
}

func (s *Site) MoveDisk(c echo.Context, a fleet.Actor, in moveDiskForm) (form.Response, error) {
	var checks fleet.Checks
	order := control.MoveDisk{PoolID: fleet.PoolID(in.Pool), RateBytes: form.ParseField(&checks, "rateBytes", in.Rate, parseTransferRate), Overcommit: in.Overcommit != ""}
	if err := checks.Err(); err != nil {
		return nil, err
	}
	id := fleet.VMID(c.Param("id"))
	t, err := s.Control.MoveDisk(c.Request().Context(), a, id, form.ParseVolumeValue(c.QueryParam("disk")), order)
	return form.StayOnPage(views.VMPath(id), t.Title()+" "+t.SubjectName+": queued on "+t.HostName+"."), err
}

// parseTransferRate parses a rate in MiB per second and returns bytes per second; empty text is 0, no limit.
func parseTransferRate(text string) (int64, error) {
	if text = strings.TrimSpace(text); text == "" {
		return 0, nil
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(n) || n <= 0 || n > fleet.MaxMoveRate>>20 {
		return 0, fmt.Errorf("Give the limit as a number of MiB per second, or leave the field empty.")
	}
	return int64(n * (1 << 20)), nil
}
