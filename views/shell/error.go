package shell

// ErrorPage is a refusal as a page.
type ErrorPage struct {
	Status    int
	Message   string
	Reference string
	Path      string // what "Try again" opens
	NoRole    bool   // the person may see nothing at all yet
}

// Title names the refusal in a few words.
func (p ErrorPage) Title() string {
	if p.NoRole {
		return "No role yet"
	}
	switch p.Status {
	case 403:
		return "Not allowed"
	case 404:
		return "Not found"
	case 409:
		return "Not possible now"
	case 503:
		return "Not available"
	case 429:
		return "Too many requests"
	case 500:
		return "Something went wrong"
	}
	return "Not done"
}
