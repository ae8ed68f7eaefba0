package host

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/hostcommand"
	"quantix/internal/policy"
	"quantix/views"
	"quantix/views/kit"
)

// Labels of the commands to a host's agent.
const (
	runDiagnostics = "Run diagnostics"
	restartAgent   = "Restart agent"
)

// AgentLog is the log of the tab agent-log.
type AgentLog struct {
	Artifact *hostcommand.Artifact // nil: never read
	Lines    []hostcommand.LogLine // all lines, the oldest first
	Level    string                // lowest level to show; empty: all
}

// maxShownLines limits the lines that the page shows without ?lines=all.
const maxShownLines = 500

// shown returns the lines to show, the newest first.
func (p Page) shownLines() []hostcommand.LogLine {
	lines := hostcommand.FilterLog(p.Log.Lines, p.Log.Level)
	slices.Reverse(lines)
	if p.Link.Query.Get("lines") != "all" && len(lines) > maxShownLines {
		lines = lines[:maxShownLines]
	}
	return lines
}

// levelTabs are the levels that the log can be filtered by.
func (p Page) levelTabs() (out []kit.Tab) {
	out = append(out, kit.Tab{Text: "All", Href: p.Link.Without("level").String(), Here: p.Log.Level == ""})
	for _, l := range []struct{ level, text string }{{"INFO", "Info"}, {"WARN", "Warnings"}, {"ERROR", "Errors"}} {
		out = append(out, kit.Tab{Text: l.text, Href: p.Link.With("level", l.level).String(), Here: p.Log.Level == l.level})
	}
	return out
}

// liveEvery is the interval at which the tab is read again without a wake-up. The log is long, and changes only on request.
func (p Page) liveEvery() string {
	if p.Tab == "agent-log" && p.Open == nil {
		return "60s"
	}
	return "10s"
}

// commandButton is the button of a command to the agent, disabled with the reason where it is not possible.
func (p Page) commandButton(act fleet.Action, b kit.ActionButton) kit.ActionButton {
	return b.WithReasonFrom(policy.RestrictActions(p.Actor, "host", "", p.Host.Actions()), act)
}

func (p Page) diagnosticsButton() kit.ActionButton {
	return p.commandButton(fleet.ActDiagnoseHost, kit.ActionButton{Icon: "file-text", Word: runDiagnostics, Href: p.path("diagnostics"), Dialog: true})
}

func (p Page) refreshLogButton() kit.ActionButton {
	return p.commandButton(fleet.ActReadAgentLog, kit.ActionButton{Icon: "refresh-cw", Word: "Refresh", Post: p.path("agent-log"), Back: views.TabPath(p.path(), "agent-log")})
}

// artifactPath is the address of an archive of a host, or of one of its items.
func artifactPath(a hostcommand.Artifact, below ...string) string {
	return views.HostPath(a.HostID, append([]string{"diagnostics", string(a.ID)}, below...)...)
}

// itemCounts says how many items of an archive have no text or only a part of it.
func itemCounts(s hostcommand.Summary) string {
	text := kit.CountText(len(s.Items), "item")
	if n := s.Count(fleet.SeverityBad); n > 0 {
		text += fmt.Sprintf(", %d failed", n)
	}
	if n := s.Count(fleet.SeverityWarn); n > 0 {
		text += fmt.Sprintf(", %d truncated", n)
	}
	return text
}

func secondsText(seconds float64) string { return strconv.FormatFloat(seconds, 'f', 1, 64) + " s" }

// DiagnosticsDialogPage is the dialog before diagnostics of a host are collected.
type DiagnosticsDialogPage struct {
	Host   fleet.HostView
	Chosen []string // the site's own diagnostics
	Errors kit.Errors
}

func (p DiagnosticsDialogPage) dialog() kit.Dialog {
	return kit.Dialog{
		Help: kit.HelpDiagnostics, Title: runDiagnostics + ": " + p.Host.Name, Button: runDiagnostics, Back: views.TabPath(views.HostPath(p.Host.ID), "diagnostics"),
		Action: views.HostPath(p.Host.ID, "diagnostics"), Why: kit.RefusalReason(p.Host.Allows(fleet.ActDiagnoseHost)),
	}
}

// RestartAgentPage is the dialog before a host's agent restarts.
type RestartAgentPage struct {
	Host   fleet.HostView
	Jobs   []string // running jobs that the restart would interrupt
	Force  bool
	Errors kit.Errors
}

func (p RestartAgentPage) dialog() kit.Dialog {
	return kit.Dialog{
		Help: kit.HelpRestartAgent, Title: restartAgent + ": " + p.Host.Name, Button: restartAgent, Back: views.HostPath(p.Host.ID),
		Action: views.HostPath(p.Host.ID, string(fleet.ActRestartAgent)), Why: kit.RefusalReason(p.Host.Allows(fleet.ActRestartAgent)),
	}
}

// DiagnosticItemPage shows the text of one item.
type DiagnosticItemPage struct {
	Link     kit.Link
	Host     fleet.HostView
	Artifact hostcommand.Artifact
	Item     hostcommand.Item
	Text     string
	Now      time.Time
}
