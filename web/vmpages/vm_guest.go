package vmpages

import (
	"strconv"

	"github.com/labstack/echo/v4"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/views"
	vmview "quantix/views/vm"
	"quantix/web/form"
)

// StartGuestAction starts an action of the guest agent that needs no dialog.
func (s *Site) StartGuestAction(c echo.Context, a fleet.Actor, in vmActionForm) (form.Response, error) {
	return s.queueGuestAction(c, a, control.GuestRequest{Action: in.Action})
}

func (s *Site) queueGuestAction(c echo.Context, a fleet.Actor, in control.GuestRequest) (form.Response, error) {
	id := fleet.VMID(c.Param("id"))
	t, err := s.Control.SendGuestRequest(c.Request().Context(), a, id, in)
	return form.StayOnPage(views.VMPath(id), t.Title()+" of "+t.SubjectName+": queued for the guest agent."), err
}

type freezeForm struct {
	Seconds string `form:"seconds"`
}

// newGuestDialog returns the data that all dialogs about guest actions share. Why is the reason if the action act is
// not possible now.
func (s *Site) newGuestDialog(c echo.Context, a fleet.Actor, act fleet.Action, how form.Display) (vmview.GuestActionPage, error) {
	p, err := s.readVMPage(c, a, "")
	out := vmview.GuestActionPage{VM: p.VM, Errors: how.Errors}
	for _, st := range p.GuestActions {
		if st.Action == act {
			out.Why = st.Reason
		}
	}
	return out, err
}

func (s *Site) ShowFreezeForm(c echo.Context, a fleet.Actor, in freezeForm, how form.Display) error {
	p, err := s.newGuestDialog(c, a, fleet.ActFreeze, how)
	if err != nil {
		return err
	}
	if p.In.Seconds = in.Seconds; !how.WasRefused() {
		p.In.Seconds = strconv.Itoa(fleet.DefaultFreeze)
	}
	return s.ShowPageWithStatus(c, how.Status, a, vmPageLayout(p.VM), vmview.FreezeDialog(p))
}

func (s *Site) FreezeGuest(c echo.Context, a fleet.Actor, in freezeForm) (form.Response, error) {
	var checks fleet.Checks
	n := form.ParseField(&checks, "seconds", in.Seconds, form.ParseNumber)
	if checks.Err() == nil {
		fleet.CheckFreezeDuration(&checks, "seconds", n) // checked here, because control would use the default for an empty field
	}
	if err := checks.Err(); err != nil {
		return nil, err
	}
	return s.queueGuestAction(c, a, control.GuestRequest{Action: fleet.ActFreeze, Seconds: n})
}

// guestPasswordForm contains a password, which no response may repeat.
type guestPasswordForm struct {
	User     string `form:"user"`
	Password string `form:"password"`
}

func (s *Site) ShowGuestPasswordForm(c echo.Context, a fleet.Actor, in guestPasswordForm, how form.Display) error {
	p, err := s.newGuestDialog(c, a, fleet.ActGuestPassword, how)
	if err != nil {
		return err
	}
	if p.In.User = in.User; !how.WasRefused() {
		p.In.User = "root"
	}
	return s.ShowPageWithStatus(c, how.Status, a, vmPageLayout(p.VM), vmview.GuestPasswordDialog(p))
}

func (s *Site) SetGuestPassword(c echo.Context, a fleet.Actor, in guestPasswordForm) (form.Response, error) {
	return s.queueGuestAction(c, a, control.GuestRequest{Action: fleet.ActGuestPassword, User: in.User, Password: in.Password})
}

// guestProgramForm contains arguments, one per line, which may be secrets. Only the form may show them again.
type guestProgramForm struct {
	Program string `form:"program"`
	Args    string `form:"args"`
	Seconds string `form:"seconds"`
}

func (s *Site) ShowGuestProgramForm(c echo.Context, a fleet.Actor, in guestProgramForm, how form.Display) error {
	p, err := s.newGuestDialog(c, a, fleet.ActExec, how)
	if err != nil {
		return err
	}
	p.In.Program, p.In.Args = in.Program, in.Args
	if p.In.Seconds = in.Seconds; !how.WasRefused() {
		p.In.Seconds = strconv.Itoa(fleet.DefaultExec)
	}
	return s.ShowPageWithStatus(c, how.Status, a, vmPageLayout(p.VM), vmview.GuestProgramDialog(p))
}

// RunGuestProgram redirects to the task, which will show the program's output.
func (s *Site) RunGuestProgram(c echo.Context, a fleet.Actor, in guestProgramForm) (form.Response, error) {
	order := control.GuestRequest{Action: fleet.ActExec, Program: in.Program, Args: fleet.SplitArgLines(in.Args)}
	var checks fleet.Checks
	order.Seconds = form.ParseField(&checks, "seconds", in.Seconds, form.ParseNumber)
	if checks.Err() == nil {
		fleet.CheckExecTimeout(&checks, "seconds", order.Seconds) // checked here, because control would use the default for an empty field
	}
	fleet.CheckGuestProgram(&checks, "program", "args", fleet.GuestProgram{Program: order.Program, Args: order.Args})
	if err := checks.Err(); err != nil {
		return nil, err
	}
	t, err := s.Control.SendGuestRequest(c.Request().Context(), a, fleet.VMID(c.Param("id")), order)
	return form.RedirectTo(views.TaskPath(t.ID)), err
}
