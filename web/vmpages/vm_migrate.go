package vmpages

import (
	"errors"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/views"
	vmview "quantix/views/vm"
	"quantix/web/form"
	"quantix/web/options"
)

type migrateForm struct {
	To         string `form:"to"` // "<host>/<pool>"
	Rate       string `form:"rate"`
	Overcommit string `form:"overcommit"`

	AutoConverge string                  `form:"autoConverge"`
	PostCopy     string                  `form:"postCopy"`
	Channels     string                  `form:"channels"`
	Downtime     string                  `form:"downtime"`
	Timeout      string                  `form:"timeout"`
	OnTimeout    fleet.MigrationOnExpiry `form:"onTimeout"`
}

// options parses the options of a live migration. The select of what happens after the time limit always has a value,
// which counts only together with a limit.
func (in migrateForm) options(c *fleet.Checks) fleet.MigrationOptions {
	out := fleet.MigrationOptions{
		AutoConverge: in.AutoConverge != "", PostCopy: in.PostCopy != "",
		Channels:       form.ParseField(c, "options.channels", in.Channels, parseOptionalCount),
		MaxDowntime:    form.ParseField(c, "options.maxDowntimeMs", in.Downtime, parseOptionalCount),
		TimeoutSeconds: form.ParseField(c, "options.timeoutSeconds", in.Timeout, parseOptionalCount),
	}
	if out.TimeoutSeconds > 0 {
		out.OnTimeout = in.OnTimeout
	}
	return out
}

// parseOptionalCount parses a positive number; empty text is 0.
func parseOptionalCount(text string) (int, error) {
	if text = strings.TrimSpace(text); text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, errors.New("Enter a whole number above 0, or leave the field empty.")
	}
	return n, nil
}

func (s *Site) ShowMigrateForm(c echo.Context, a fleet.Actor, in migrateForm, how form.Display) error {
	ctx := c.Request().Context()
	p, err := s.readVMPage(c, a, "")
	if err != nil {
		return err
	}
	out := vmview.MigratePage{VM: p.VM, Errors: how.Errors, In: vmview.MigrateForm{
		To: in.To, Rate: in.Rate, Overcommit: in.Overcommit != "", Channels: in.Channels, Downtime: in.Downtime, Timeout: in.Timeout, OnTimeout: string(in.OnTimeout),
		AutoConverge: in.AutoConverge != "", PostCopy: in.PostCopy != "",
	}}
	moving, err := s.Control.DiskMigrationsInProgress(ctx, a, p.VM.ID)
	if err != nil {
		return err
	}
	leaving, err := s.Control.MigrationInProgress(ctx, a, p.VM.ID)
	if err != nil {
		return err
	}
	if _, out.Why = p.VM.AllowsMigration(moving, leaving); out.Why == "" {
		if out.Targets, err = s.Control.MigrationTargets(ctx, a, p.VM.ID); err != nil {
			return err
		}
		if how.Status == form.FirstDisplay.Status && out.In.To == "" {
			out.In.To = vmview.DefaultMigrationTarget(out.Targets)
		}
		targets := options.Query{
			Kind: "leave-targets", ParentID: string(p.VM.ID), Chosen: []string{in.To}, FormAddress: views.VMPath(p.VM.ID, "migrate"), ShowAll: c.QueryParam("all") != "", Targets: out.Targets,
		}
		if out.To, err = s.Options.Choices(ctx, a, targets); err != nil {
			return err
		}
		plans, err := s.Control.PlanMigrations(ctx, a, []fleet.VMID{p.VM.ID})
		if err != nil {
			return err
		}
		out.NameBestHost(plans)
	}
	return s.ShowPageWithStatus(c, how.Status, a, vmPageLayout(p.VM), vmview.MigrateDialog(out))
}

func (s *Site) MigrateVM(c echo.Context, a fleet.Actor, in migrateForm) (form.Response, error) {
	var checks fleet.Checks
	host, pool, _ := strings.Cut(in.To, "/")
	switch host {
	case "":
		checks.Add("hostId", "Choose the host that the VM goes to.")
	case vmview.MigrateToBest:
		host = ""
	}
	order := control.MigrateVM{
		HostID: fleet.HostID(host), PoolID: fleet.PoolID(pool), RateBytes: form.ParseField(&checks, "rateBytes", in.Rate, parseTransferRate), Overcommit: in.Overcommit != "", Options: in.options(&checks),
	}
	if err := checks.Err(); err != nil {
		return nil, err
	}
	id := fleet.VMID(c.Param("id"))
	t, err := s.Control.MigrateVM(c.Request().Context(), a, id, order)
	return form.StayOnPage(views.VMPath(id), t.Title()+" "+t.SubjectName+": queued on "+t.HostName+"."), err
}
