// Package console renders sessions of consoles: the list, and the people at one console.
package console

import (
	"slices"
	"strconv"

	"quantix/internal/console"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views"
	"quantix/views/kit"
)

const listPath = "/console-sessions"

// SessionsPath is the list of the sessions of a VM's console.
func SessionsPath(vm fleet.VMID) string {
	return kit.Link{Path: listPath}.With("filter", "uuid:"+string(vm)).String()
}

// ListPage is the list of sessions.
type ListPage struct {
	kit.List
	Actor    fleet.Actor
	Sessions []console.Session
}

// Columns are the columns of the list.
var Columns = kit.Columns{
	{Key: "state", Label: "State"},
	{Key: "who", Label: "User"},
	{Key: "project", Label: "Project"},
	{Key: "keyboard", Label: "Keyboard"},
	{Key: "opened", Label: "Opened", Sort: "opened"},
	{Key: "ended", Label: "Ended"},
	{Key: "shown", Label: "Shown", Class: "num"},
	{Key: "sent", Label: "Sent", Class: "num", OnRequest: true},
	{Key: "kind", Label: "Kind", OnRequest: true},
	{Key: "address", Label: "Address", OnRequest: true},
	{Key: "id", Label: "UUID", OnRequest: true},
}

// CSV are the columns of the export.
var CSV = []kit.CSVColumn[console.Session]{
	{Name: "id", Value: func(s *console.Session) string { return string(s.ID) }},
	{Name: "kind", Value: func(s *console.Session) string { return string(s.Kind) }},
	{Name: "vm", Value: func(s *console.Session) string { return s.VMName }},
	{Name: "project", Value: func(s *console.Session) string { return s.ProjectName }},
	{Name: "user", Value: func(s *console.Session) string { return s.UserName }},
	{Name: "address", Value: func(s *console.Session) string { return s.Address }},
	{Name: "openedAt", Value: func(s *console.Session) string { return kit.CSVTime(&s.OpenedAt) }},
	{Name: "endedAt", Value: func(s *console.Session) string { return kit.CSVTime(s.EndedAt) }},
	{Name: "endReason", Value: func(s *console.Session) string { return s.EndReason }},
	{Name: "sentBytes", Value: func(s *console.Session) string { return strconv.FormatInt(s.SentBytes, 10) }},
	{Name: "shownBytes", Value: func(s *console.Session) string { return strconv.FormatInt(s.ShownBytes, 10) }},
}

func (p *ListPage) table() kit.Table[console.Session] {
	return kit.Table[console.Session]{
		List: &p.List, ID: "console-rows", Live: "console-sessions", Every: "30s", Label: "Console sessions", Type: "console session", Head: kit.Column{Label: "VM"},
		Items: p.Sessions, HasRowMenus: true, EmptyContent: emptyListNote(p),
		Row: func(s *console.Session) kit.Row {
			return kit.Row{ID: "console-" + string(s.ID), Name: s.VMName, Href: vmPath(*s), Menu: views.ContextMenuPath(fleet.TypeConsole, s.ID)}
		},
		RowCells: sessionRow,
	}
}

func (p *ListPage) tabs() []kit.Tab {
	tabs := []kit.Tab{{Text: "VMs", Href: "/vms"}}
	for _, t := range kit.ResourceTabs(fleet.TypeVM) {
		t.Here = t.Href == listPath
		tabs = append(tabs, t)
	}
	return tabs
}

// vmPath is the page of the session's VM.
func vmPath(s console.Session) string {
	if s.HostID != "" {
		return views.DiscoveredVMPath(s.HostID, s.VMID)
	}
	return views.VMPath(s.VMID)
}

func sessionPath(s console.Session, below string) string {
	return views.ObjectPath(fleet.TypeConsole, s.ID, below)
}

// Actions returns the actions on a session.
func Actions(a fleet.Actor, s console.Session) []kit.ActionButton {
	end := kit.ActionButton{
		Icon: "ban", Word: "End session", Post: sessionPath(s, "end"), Back: listPath, Danger: true,
		Confirm: "End the session of " + s.UserName + " at " + s.VMName + "? The VM keeps running. The user is told that you ended it.",
	}
	switch {
	case !s.Open():
		end = end.DisableFor("The session has ended.")
	case !isOwn(a, s) && !mayControl(a, s):
		end = end.DisableFor("You can end only your own sessions. To end those of others, you need permission to change the VM.")
	}
	return []kit.ActionButton{end}
}

func isOwn(a fleet.Actor, s console.Session) bool { return a.UserID != "" && s.UserID == a.UserID }

// mayControl reports whether the actor may end other people's sessions of the VM and take the keyboard.
func mayControl(a fleet.Actor, s console.Session) bool {
	return policy.May(a, console.ControlPermission(s.ProjectID), s.ProjectID)
}

// endText says why a session ended.
func endText(s *console.Session) string {
	if s.EndReason == "" {
		return "the user left"
	}
	return s.EndReason
}

// People are the people at one console.
type People struct {
	Actor    fleet.Actor
	Sessions []console.Session
	Own      fleet.PairID // session of this browser window; empty: not connected
	Keys     string       // wake-up keys of the console's page
	Href     string       // address of the console's page
}

// own is the session of this window; nil: not connected.
func (p People) own() *console.Session {
	for i := range p.Sessions {
		if p.Sessions[i].ID == p.Own && isOwn(p.Actor, p.Sessions[i]) {
			return &p.Sessions[i]
		}
	}
	return nil
}

// users are the sessions of the console, one of each user: that of this window, else one that asks for the keyboard.
func (p People) users() (out []*console.Session) {
	own := p.own()
	for i := range p.Sessions {
		s := &p.Sessions[i]
		if own != nil && isOwn(p.Actor, *s) {
			s = own
		}
		at := slices.IndexFunc(out, func(o *console.Session) bool { return o.UserID == s.UserID && o.UserName == s.UserName })
		switch {
		case at < 0:
			out = append(out, s)
		case s.AskedAt != nil:
			out[at] = s
		}
	}
	return out
}

// shown reports whether there is somebody beside this window's user.
func (p People) shown() bool {
	users := p.users()
	return len(users) > 1 || len(users) == 1 && !isOwn(p.Actor, *users[0])
}

// name is how the page calls the user of a session.
func (p People) name(s *console.Session) string {
	if isOwn(p.Actor, *s) {
		return "You"
	}
	return s.UserName
}

// actions are what this window's user can do about the keyboard.
func (p People) actions() (out []kit.ActionButton) {
	own, users := p.own(), p.users()
	give := func(s *console.Session, word string) kit.ActionButton {
		return kit.ActionButton{Icon: "keyboard", Word: word, Post: sessionPath(*s, "keyboard"), Back: p.Href}
	}
	at := slices.IndexFunc(users, func(s *console.Session) bool { return s.Keyboard })
	switch {
	case own == nil || at < 0:
		return nil
	case own.Keyboard:
		for _, s := range users {
			if !isOwn(p.Actor, *s) {
				out = append(out, give(s, "Hand over to "+s.UserName))
			}
		}
		return out
	}
	holder := users[at]
	ask := kit.ActionButton{Icon: "keyboard", Word: "Ask for the keyboard", Post: sessionPath(*own, "ask"), Back: p.Href}
	if own.AskedAt != nil {
		ask = ask.DisableFor("You have asked " + holder.UserName + ".")
	}
	out = append(out, ask)
	if mayControl(p.Actor, *own) {
		take := give(own, "Take the keyboard")
		take.Confirm, take.ConfirmTone = "Take the keyboard from "+holder.UserName+"? What they type no longer reaches the VM.", "primary"
		out = append(out, take)
	}
	return out
}
