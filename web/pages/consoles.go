package pages

import (
	"github.com/labstack/echo/v4"

	"quantix/internal/console"
	"quantix/internal/fleet"
	consoleview "quantix/views/console"
	"quantix/views/kit"
	"quantix/views/shell"
	"quantix/web/form"
	"quantix/web/render"
)

// ListConsoleSessions shows the sessions of consoles that the actor may see.
func (s *Site) ListConsoleSessions(c echo.Context, a fleet.Actor) (err error) {
	f := kit.Filter{Label: "Filter console sessions", Placeholder: "open:yes vm:web who:me"}
	p := &consoleview.ListPage{List: s.NewList(c, "console-sessions", "-opened", consoleview.Columns, f), Actor: a}
	if p.Sessions, err = render.FillList(c, a, &p.List, render.QueryFromURL(c), s.Control.ListConsoleSessions); err != nil {
		return err
	}
	return s.ShowList(c, a, shell.PageLayout{Title: "Console sessions"}, p.List, consoleview.List(p))
}

// ExportConsoleSessionsCSV sends the list of sessions as CSV.
func (s *Site) ExportConsoleSessionsCSV(c echo.Context, a fleet.Actor) error {
	return render.ExportCSV(s.Renderer, c, a, "console-sessions.csv", render.QueryFromURL(c), s.Control.ListConsoleSessions, consoleview.CSV)
}

// ConsoleSessionMenu returns the handler of the menu of a session.
func (s *Site) ConsoleSessionMenu() func(echo.Context, fleet.Actor) error {
	return actionMenu(s, s.Control.GetConsoleSession, func(v console.Session) shell.PageLayout { return shell.PageLayout{Title: v.VMName} }, consoleview.Actions)
}

type backForm struct {
	Back string `form:"back"` // the page to return to without JavaScript
}

func (in backForm) path() string { return render.LocalPathOrRoot(in.Back) }

// EndConsoleSession ends the session in the path.
func (s *Site) EndConsoleSession(c echo.Context, a fleet.Actor, in backForm) (form.Response, error) {
	err := s.Control.EndConsoleSession(c.Request().Context(), a, fleet.PairID(c.Param("id")))
	return form.StayOnPage(in.path(), "The session is ended."), err
}

// AskForKeyboard asks for the keyboard, for the session in the path.
func (s *Site) AskForKeyboard(c echo.Context, a fleet.Actor, in backForm) (form.Response, error) {
	err := s.Control.AskForKeyboard(c.Request().Context(), a, fleet.PairID(c.Param("id")))
	return form.StayOnPage(in.path(), "The user who has the keyboard sees that you ask for it."), err
}

// GiveKeyboard gives the keyboard to the session in the path.
func (s *Site) GiveKeyboard(c echo.Context, a fleet.Actor, in backForm) (form.Response, error) {
	err := s.Control.GiveKeyboard(c.Request().Context(), a, fleet.PairID(c.Param("id")))
	return form.StayOnPage(in.path(), "The keyboard is handed over."), err
}
