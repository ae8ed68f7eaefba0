package pages

import (
	"errors"
	"net/url"

	"github.com/labstack/echo/v4"

	"quantix/internal/bmc"
	"quantix/internal/control/hostpower"
	"quantix/internal/fleet"
	"quantix/views"
	hostview "quantix/views/host"
	"quantix/web/form"
)

// bmcForm contains a password, which no response may repeat.
type bmcForm struct {
	Address     string `form:"address"`
	User        string `form:"user"`
	Password    string `form:"password"`
	Trust       string `form:"trust"`
	Fingerprint string `form:"fingerprint"`
	CA          string `form:"ca"`
	SystemID    string `form:"systemId"`
	Generation  string `form:"generation"`
}

func (in bmcForm) spec() bmc.Spec {
	return bmc.Spec{Address: in.Address, User: in.User, Trust: bmc.Trust(in.Trust), Fingerprint: in.Fingerprint, CA: in.CA, SystemID: in.SystemID}
}

// ShowBMCForm shows the dialog that adds or changes the BMC of a host.
func (s *Site) ShowBMCForm(c echo.Context, a fleet.Actor, in bmcForm, how form.Display) error {
	ctx := c.Request().Context()
	h, err := s.Control.GetHost(ctx, a, fleet.HostID(c.Param("id")))
	if err != nil {
		return err
	}
	f := hostview.BMCForm{Host: h, Spec: in.spec(), Generation: form.ParseGeneration(in.Generation), Errors: how.Errors}
	if h.HasBMC && !how.WasRefused() {
		b, err := s.Control.GetBMC(ctx, a, h.ID)
		if err != nil {
			return err
		}
		f.Spec, f.Generation = b.Spec, b.Generation
	}
	return s.ShowPageWithStatus(c, how.Status, a, hostPageLayout(h), hostview.BMCDialog(f))
}

// SetBMC adds or changes the BMC of a host.
func (s *Site) SetBMC(c echo.Context, a fleet.Actor, in bmcForm) (form.Response, error) {
	id := fleet.HostID(c.Param("id"))
	_, err := s.Control.SetBMC(c.Request().Context(), a, id, hostpower.BMCInput{Spec: in.spec(), Password: in.Password, IfGeneration: form.ParseGeneration(in.Generation)})
	return form.StayOnPage(views.HostPath(id), "The BMC is saved. Quantix connects to it now."), err
}

// TestBMC requests a test of the BMC of a host.
func (s *Site) TestBMC(c echo.Context, a fleet.Actor, _ form.EmptyForm) (form.Response, error) {
	id := fleet.HostID(c.Param("id"))
	_, err := s.Control.TestBMC(c.Request().Context(), a, id)
	return form.StayOnPage(views.HostPath(id), "Quantix tests the BMC now."), err
}

// DeleteBMC removes the BMC of a host.
func (s *Site) DeleteBMC(c echo.Context, a fleet.Actor, _ form.EmptyForm) (form.Response, error) {
	id := fleet.HostID(c.Param("id"))
	return form.StayOnPage(views.HostPath(id), "The BMC is removed."), s.Control.DeleteBMC(c.Request().Context(), a, id)
}

// ConfirmBMCPower returns the function that shows the dialog before a host's power is switched through its BMC.
func (s *Site) ConfirmBMCPower(act fleet.Action) form.Renderer[hostPowerForm] {
	return func(c echo.Context, a fleet.Actor, _ hostPowerForm, how form.Display) error {
		ctx := c.Request().Context()
		h, err := s.Control.GetHost(ctx, a, fleet.HostID(c.Param("id")))
		if err != nil {
			return err
		}
		p := hostview.BMCPowerPage{Host: h, Act: act, Errors: how.Errors}
		if act != fleet.ActPowerOn {
			if p.Running, err = s.Control.RunningVMsOf(ctx, a, h.ID); err != nil {
				return err
			}
		}
		return s.ShowPageWithStatus(c, how.Status, a, hostPageLayout(h), hostview.BMCPowerDialog(p))
	}
}

// SwitchPower returns the function that switches a host's power through its BMC.
func (s *Site) SwitchPower(act fleet.Action) form.Action[hostPowerForm] {
	return func(c echo.Context, a fleet.Actor, in hostPowerForm) (form.Response, error) {
		id := fleet.HostID(c.Param("id"))
		task, err := s.Control.RequestBMCPower(c.Request().Context(), a, id, act, in.Confirm)
		return form.StayOnPage(views.HostPath(id), task.Title()+" "+task.SubjectName+": queued."), err
	}
}

// terminationForm holds the decisions by VM like maintenanceForm.
type terminationForm struct {
	maintenanceForm
	confirm      string
	leaveVolumes bool
}

// ReadForm reads the fields of a maintenanceForm, "confirm" and "leaveVolumes".
func (f *terminationForm) ReadForm(sent url.Values) {
	f.maintenanceForm.ReadForm(sent)
	f.confirm, f.leaveVolumes = sent.Get("confirm"), sent.Get("leaveVolumes") != ""
}

// ShowTerminationForm shows the dialog that terminates a host.
func (s *Site) ShowTerminationForm(c echo.Context, a fleet.Actor, in terminationForm, how form.Display) error {
	ctx := c.Request().Context()
	h, err := s.Control.GetHost(ctx, a, fleet.HostID(c.Param("id")))
	if err != nil {
		return err
	}
	p := hostview.TerminationPage{MaintenancePage: hostview.MaintenancePage{Host: h, Chosen: in.decisions, Errors: how.Errors}, LeaveVolumes: in.leaveVolumes}
	p.Termination, err = s.Control.PlanTermination(ctx, a, h.ID, in.overcommit)
	if refused, ok := errors.AsType[*fleet.Error](err); ok && refused.Code == fleet.Conflict {
		p.Why, err = refused.Message, nil
	}
	if err != nil {
		return err
	}
	p.Plan = p.Termination.Plan
	return s.ShowPageWithStatus(c, how.Status, a, hostPageLayout(h), hostview.TerminationDialog(p))
}

// TerminateHost drains, powers off and removes a host.
func (s *Site) TerminateHost(c echo.Context, a fleet.Actor, in terminationForm) (form.Response, error) {
	if in.redrawOnly {
		return func(c echo.Context) error { return s.ShowTerminationForm(c, a, in, form.FirstDisplay) }, nil
	}
	decisions := map[fleet.VMID]fleet.MaintenanceDecision{}
	for id, text := range in.decisions {
		decisions[id] = hostview.ParseDecision(text)
	}
	task, err := s.Control.TerminateHost(c.Request().Context(), a, fleet.HostID(c.Param("id")), hostpower.TerminateHost{
		Confirm: in.confirm, Decisions: decisions, Overcommit: in.overcommit, LeaveVolumes: in.leaveVolumes,
	})
	return form.RedirectTo(views.TaskPath(task.ID)), err
}
