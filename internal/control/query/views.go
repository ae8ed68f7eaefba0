package query

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

const (
	maxViews     = 50   // per list and user
	maxViewName  = 60   // characters
	maxViewQuery = 2000 // bytes
)

// ListViews returns the actor's saved views of a list, by name.
func (b *Queries) ListViews(ctx context.Context, a fleet.Actor, list string) ([]fleet.SavedView, error) {
	if err := policy.Check(a, policy.OwnAccount, ""); err != nil {
		return nil, err
	}
	if _, known := fleet.SavedViewQuery(list, nil); !known {
		return nil, unknownListError()
	}
	rows, err := b.store.ListViews(ctx, db.ListViewsParams{UserID: a.UserID, List: list})
	if err != nil {
		return nil, store.UserError(err)
	}
	views := make([]fleet.SavedView, len(rows))
	for i, row := range rows {
		views[i] = viewFromRow(row)
	}
	return views, nil
}

// SaveView saves a view of a list for the actor. It stores only those parameters of the URL query that define a view,
// and replaces a view of the same name. The filter is validated only when the view is opened.
func (b *Queries) SaveView(ctx context.Context, a fleet.Actor, list, name, query string) (fleet.SavedView, error) {
	if err := policy.Check(a, policy.OwnAccount, ""); err != nil {
		return fleet.SavedView{}, err
	}
	if a.UserID == "" {
		return fleet.SavedView{}, fleet.Errorf(fleet.Forbidden, "Only a person can save views.")
	}
	name = strings.TrimSpace(name)
	query, err := checkSavedView(list, name, query)
	if err != nil {
		return fleet.SavedView{}, err
	}
	var view fleet.SavedView
	err = b.store.Tx(ctx, func(q *db.Queries) error {
		// Lock the user, so that concurrent requests cannot exceed the limit.
		if _, err := q.LockUser(ctx, a.UserID); err != nil {
			return store.NotFoundError(err, "user")
		}
		row, err := q.SaveView(ctx, db.SaveViewParams{
			ID: fleet.NewID[fleet.ViewID](), UserID: a.UserID, List: list, Name: name, Query: query, Max: maxViews,
		})
		if errors.Is(err, pgx.ErrNoRows) {
			return fleet.Errorf(fleet.Conflict, "You have %d views of this list already. Delete one that is not used.", maxViews)
		}
		if err != nil {
			return err
		}
		view = viewFromRow(row)
		return store.Audit(ctx, q, a, "view.save", viewSubject(row.ID), name, list)
	})
	return view, err
}

// DeleteView deletes one of the actor's own views and returns it.
func (b *Queries) DeleteView(ctx context.Context, a fleet.Actor, id fleet.ViewID) (fleet.SavedView, error) {
	if err := policy.Check(a, policy.OwnAccount, ""); err != nil {
		return fleet.SavedView{}, err
	}
	var view fleet.SavedView
	err := b.store.Tx(ctx, func(q *db.Queries) error {
		row, err := q.DeleteView(ctx, db.DeleteViewParams{ID: id, UserID: a.UserID})
		if err != nil {
			return store.NotFoundError(err, "view")
		}
		view = viewFromRow(row)
		return store.Audit(ctx, q, a, "view.delete", viewSubject(id), row.Name, row.List)
	})
	return view, err
}

// checkSavedView checks the arguments and returns the part of query that is stored.
func checkSavedView(list, name, query string) (string, error) {
	address, err := url.ParseQuery(query)
	if err != nil {
		return "", fleet.Errorf(fleet.Malformed, "This is not the address of a list. Open the list again and save the view from there.")
	}
	query, known := fleet.SavedViewQuery(list, address)
	if !known {
		return "", unknownListError()
	}
	var c fleet.Checks
	switch {
	case name == "":
		c.Add("name", "Give the view a name.")
	case utf8.RuneCountInString(name) > maxViewName || !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl):
		c.Add("name", "A view's name is one line of at most %d characters.", maxViewName)
	}
	if len(query) > maxViewQuery {
		c.Add("query", "The list's address has more than %d bytes, so it cannot be saved. Shorten the filter.", maxViewQuery)
	}
	return query, c.Err()
}

func unknownListError() error { return fleet.Errorf(fleet.NotFound, "There is no such list.") }

func viewFromRow(row db.SavedView) fleet.SavedView {
	return fleet.SavedView{ID: row.ID, List: row.List, Name: row.Name, Query: row.Query}
}

func viewSubject(id fleet.ViewID) fleet.Subject { return fleet.Subject("view:" + string(id)) }
