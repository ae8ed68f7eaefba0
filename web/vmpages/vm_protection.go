package vmpages

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"quantix/internal/control"
	"quantix/internal/control/flavors"
	"quantix/internal/fleet"
	"quantix/views"
	"quantix/views/kit"
	vmview "quantix/views/vm"
	"quantix/web/form"
	"quantix/web/render"
)

type protectionForm struct {
	Protected   string `form:"protected"`
	Locked      string `form:"locked"`
	Reason      string `form:"reason"`
	ExpiresAt   string `form:"expiresAt"`
	ExpiryStops string `form:"expiryStops"`
}

func (s *Site) ShowProtectionForm(c echo.Context, a fleet.Actor, in protectionForm, how form.Display) error {
	p, err := s.readVMPage(c, a, "")
	if err != nil {
		return err
	}
	out := vmview.ProtectionPage{VM: p.VM, Errors: how.Errors, In: vmview.ProtectionFormOf(p.VM.Protection)}
	for _, st := range p.Actions {
		if st.Action == fleet.ActProtect {
			out.Why = st.Reason
		}
	}
	if how.WasRefused() {
		out.In = vmview.ProtectionForm{Protected: in.Protected != "", Locked: in.Locked != "", Stops: in.ExpiryStops != "", Reason: in.Reason, Expires: in.ExpiresAt}
	}
	return s.ShowPageWithStatus(c, how.Status, a, vmPageLayout(p.VM), vmview.ProtectionDialog(out))
}

func (s *Site) SetVMProtection(c echo.Context, a fleet.Actor, in protectionForm) (form.Response, error) {
	var checks fleet.Checks
	guard := control.ProtectVM{
		Protected: in.Protected != "", Locked: in.Locked != "", Reason: in.Reason,
		ExpiresAt: form.ParseField(&checks, "expiresAt", in.ExpiresAt, parseUTCTime), ExpiryStops: in.ExpiryStops != "",
	}
	if err := checks.Err(); err != nil {
		return nil, err
	}
	id := fleet.VMID(c.Param("id"))
	vm, err := s.Control.SetVMProtection(c.Request().Context(), a, id, guard)
	return form.StayOnPage(views.VMPath(id), "The protection of "+vm.Name+" is saved."), err
}

// parseUTCTime parses a time in UTC in the format of a datetime-local field; empty text is nil.
func parseUTCTime(text string) (*time.Time, error) {
	if text = strings.TrimSpace(text); text == "" {
		return nil, nil
	}
	for _, form := range []string{vmview.ExpiryTimeLayout, "2006-01-02T15:04:05", "2006-01-02 15:04", "2006-01-02"} {
		if at, err := time.ParseInLocation(form, text, time.UTC); err == nil {
			return &at, nil
		}
	}
	return nil, errors.New("Give a time in UTC, such as 2030-12-31T18:00.")
}

type renewForm struct {
	ExpiresAt string `form:"expiresAt"`
}

// renewal parses the form.
func (in renewForm) renewal() (flavors.Renewal, error) {
	var checks fleet.Checks
	out := flavors.Renewal{ExpiresAt: form.ParseField(&checks, "expiresAt", in.ExpiresAt, parseUTCTime)}
	return out, checks.Err()
}

func (s *Site) ShowRenewForm(c echo.Context, a fleet.Actor, in renewForm, how form.Display) error {
	p, err := s.readVMPage(c, a, "")
	if err != nil {
		return err
	}
	rules, err := s.Control.VMRules(c.Request().Context(), a, p.VM.ProjectID)
	if err != nil {
		return err
	}
	return s.ShowPageWithStatus(c, how.Status, a, vmPageLayout(p.VM), vmview.RenewDialog(vmview.RenewPage{VM: p.VM, Days: rules.ExpiryDays, Expires: in.ExpiresAt, Errors: how.Errors}))
}

func (s *Site) RenewVM(c echo.Context, a fleet.Actor, in renewForm) (form.Response, error) {
	want, err := in.renewal()
	if err != nil {
		return nil, err
	}
	id := fleet.VMID(c.Param("id"))
	vm, err := s.Control.RenewVM(c.Request().Context(), a, id, want)
	return form.StayOnPage(views.VMPath(id), vm.Name+" is renewed."), err
}

// renewVMs renews the selected VMs, and reports the first that cannot be renewed.
func (s *Site) renewVMs(ctx context.Context, a fleet.Actor, in bulkActionForm) (form.Response, error) {
	want, err := renewForm{in.ExpiresAt}.renewal()
	if err != nil {
		return nil, err
	}
	results, err := s.Control.RenewVMs(ctx, a, in.IDs, want)
	if err != nil {
		return nil, err
	}
	done, failed := 0, error(nil)
	for _, r := range results {
		if r.Error == nil {
			done++
		} else if failed == nil {
			failed = r.Error
		}
	}
	text := fmt.Sprintf("%d of %s renewed.", done, kit.CountText(len(results), "VM"))
	if failed != nil && done == 0 {
		return nil, failed
	}
	if failed != nil {
		text += " " + failed.Error()
	}
	return form.StayOnPage(render.LocalPathOrRoot(in.Back), text), nil
}
