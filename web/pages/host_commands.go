package pages

import (
	"fmt"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"quantix/internal/control/hostcommands"
	"quantix/internal/fleet"
	"quantix/internal/hostcommand"
	"quantix/views"
	hostview "quantix/views/host"
	"quantix/views/kit"
	"quantix/web/form"
	"quantix/web/render"
)

// fillHostCommands reads the archives of the tabs diagnostics and agent-log.
func (s *Site) fillHostCommands(c echo.Context, a fleet.Actor, p *hostview.Page) (err error) {
	ctx := c.Request().Context()
	if p.Tab == "diagnostics" {
		if p.Open, err = s.Control.OpenHostCommand(ctx, a, p.Host.ID, fleet.HostDiagnose); err != nil {
			return err
		}
		p.Artifacts, err = s.Control.ListArtifacts(ctx, a, p.Host.ID, hostcommand.Diagnostics)
		return err
	}
	if p.Open, err = s.Control.OpenHostCommand(ctx, a, p.Host.ID, fleet.HostAgentLog); err != nil {
		return err
	}
	log, err := s.Control.AgentLog(ctx, a, p.Host.ID)
	p.Log = hostview.AgentLog{Artifact: log.Artifact, Lines: hostcommand.ParseLog(log.Text), Level: c.QueryParam("level")}
	return err
}

// diagnosticsForm holds the site's own diagnostics to run.
type diagnosticsForm struct {
	Site []string `form:"site"`
}

// ShowRunDiagnostics shows the dialog before diagnostics are collected.
func (s *Site) ShowRunDiagnostics(c echo.Context, a fleet.Actor, in diagnosticsForm, how form.Display) error {
	h, err := s.Control.GetHost(c.Request().Context(), a, fleet.HostID(c.Param("id")))
	if err != nil {
		return err
	}
	p := hostview.DiagnosticsDialogPage{Host: h, Chosen: in.Site, Errors: how.Errors}
	return s.ShowPageWithStatus(c, how.Status, a, hostPageLayout(h), hostview.DiagnosticsDialog(p))
}

// RunDiagnostics requests diagnostics of the host.
func (s *Site) RunDiagnostics(c echo.Context, a fleet.Actor, in diagnosticsForm) (form.Response, error) {
	id := fleet.HostID(c.Param("id"))
	task, err := s.Control.RunDiagnostics(c.Request().Context(), a, id, in.Site)
	return form.RedirectTo(views.TabPath(views.HostPath(task.HostID), "diagnostics")), err
}

// ReadAgentLog requests the log of the host's agent again.
func (s *Site) ReadAgentLog(c echo.Context, a fleet.Actor, _ form.EmptyForm) (form.Response, error) {
	id := fleet.HostID(c.Param("id"))
	_, err := s.Control.RequestAgentLog(c.Request().Context(), a, id)
	return form.StayOnPage(views.TabPath(views.HostPath(id), "agent-log"), "The agent's log is being read."), err
}

// restartAgentForm is the form of the restart of an agent.
type restartAgentForm struct {
	Force string `form:"force"`
}

// ConfirmRestartAgent shows the dialog before a host's agent restarts.
func (s *Site) ConfirmRestartAgent(c echo.Context, a fleet.Actor, in restartAgentForm, how form.Display) error {
	ctx := c.Request().Context()
	h, err := s.Control.GetHost(ctx, a, fleet.HostID(c.Param("id")))
	if err != nil {
		return err
	}
	p := hostview.RestartAgentPage{Host: h, Force: in.Force != "", Errors: how.Errors}
	if p.Jobs, err = s.Control.JobsInterruptedByRestart(ctx, a, h.ID); err != nil {
		return err
	}
	return s.ShowPageWithStatus(c, how.Status, a, hostPageLayout(h), hostview.RestartAgentDialog(p))
}

// RestartAgent requests the restart of the host's agent.
func (s *Site) RestartAgent(c echo.Context, a fleet.Actor, in restartAgentForm) (form.Response, error) {
	id := fleet.HostID(c.Param("id"))
	task, err := s.Control.RestartAgent(c.Request().Context(), a, id, in.Force != "")
	return form.StayOnPage(views.HostPath(id), task.Title()+" "+task.SubjectName+": queued."), err
}

// artifactOfPath reads the archive that the path names.
func (s *Site) artifactOfPath(c echo.Context, a fleet.Actor) (hostcommand.Artifact, []byte, error) {
	return s.Control.GetArtifact(c.Request().Context(), a, fleet.HostID(c.Param("id")), hostcommand.ArtifactID(c.Param("artifact")))
}

// DownloadDiagnostics sends an archive of a host.
func (s *Site) DownloadDiagnostics(c echo.Context, a fleet.Actor) error {
	found, archive, err := s.artifactOfPath(c, a)
	if err != nil {
		return err
	}
	return sendFile(c, found, ".zip", "application/zip", archive)
}

// DownloadAgentLog sends the log of the host's agent, from its last reading, as text.
func (s *Site) DownloadAgentLog(c echo.Context, a fleet.Actor) error {
	log, err := s.Control.AgentLog(c.Request().Context(), a, fleet.HostID(c.Param("id")))
	if err == nil && log.Artifact == nil {
		err = fleet.Errorf(fleet.NotFound, "The agent's log was never read. Choose Refresh on the tab Agent log.")
	}
	if err != nil {
		return err
	}
	return sendFile(c, *log.Artifact, ".txt", "text/plain; charset=utf-8", []byte(log.Text))
}

func sendFile(c echo.Context, of hostcommand.Artifact, extension, typ string, content []byte) error {
	name := string(of.Kind) + "-" + of.At.UTC().Format("20060102-150405") + extension
	c.Response().Header().Set(echo.HeaderContentDisposition, fmt.Sprintf("attachment; filename=%q", name))
	return c.Blob(http.StatusOK, typ, content)
}

// DiagnosticItemPage shows the text of one item of a host's diagnostics.
func (s *Site) DiagnosticItemPage(c echo.Context, a fleet.Actor) error {
	h, err := s.Control.GetHost(c.Request().Context(), a, fleet.HostID(c.Param("id")))
	if err != nil {
		return err
	}
	found, archive, err := s.artifactOfPath(c, a)
	if err != nil {
		return err
	}
	text, err := hostcommands.ItemText(archive, c.Param("item"))
	if err != nil {
		return err
	}
	p := hostview.DiagnosticItemPage{Link: render.LinkToCurrentPage(c), Host: h, Artifact: found, Text: text, Now: time.Now()}
	for _, i := range found.Items {
		if i.Name == c.Param("item") {
			p.Item = i
		}
	}
	layout := hostPageLayout(h)
	layout.Title = kit.Capitalize(p.Item.Title) + " of " + h.Name
	return s.ShowPage(c, a, layout, hostview.DiagnosticItem(p))
}
