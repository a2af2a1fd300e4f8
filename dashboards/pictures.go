package dashboards

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"coalmine/storage"
	"coalmine/workflows/control"
	"coalmine/workflows/results"
)

// pictureList is the answer to GET /runs/{run}/pictures: the captions, without the files.
type pictureList struct {
	Pictures []results.Picture `json:"pictures"`
}

func (s *Server) listPictures(r *http.Request) (pictureList, error) {
	shown := results.Shown{Cell: r.PathValue("cell")}
	if text := r.URL.Query().Get("round"); text != "" {
		round, err := positive("round", text, 1)
		if err != nil {
			return pictureList{}, err
		}
		shown.Round = round
	}
	found, err := s.api.Pictures(r.Context(), runName(r), shown)
	return pictureList{found}, err
}

// positive parses a whole number in a request.
func positive(name, text string, least int) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < least {
		return 0, fmt.Errorf("%s=%.40q %w: expected a whole number from %d on", name, text, control.ErrInput, least)
	}
	return n, nil
}

// showPicture sends one picture. It never changes, so clients may cache it.
func (s *Server) showPicture(w http.ResponseWriter, r *http.Request) error {
	round, err := positive("round", r.PathValue("round"), 1)
	if err != nil {
		return err
	}
	number, err := positive("number", r.PathValue("number"), 0)
	if err != nil {
		return err
	}
	cell := r.PathValue("cell")
	found, err := s.api.Pictures(r.Context(), runName(r), results.Shown{Cell: cell, Round: round})
	if err != nil {
		return err
	}
	if number >= len(found) {
		return fmt.Errorf("run %s, cell %.40q: there is no picture %d after round %d; GET pictures lists those that there are: %w", runName(r), cell, number, round, storage.ErrNotFound)
	}
	w.Header().Set("Content-Type", "image/png")
	w.Header().Set("Cache-Control", "private, max-age=3600")
	send(w, found[number].PNG)
	return nil
}

// Pictures implements control.API.
func (c *Client) Pictures(ctx context.Context, run string, shown results.Shown) ([]results.Picture, error) {
	query := url.Values{}
	if shown.Round > 0 {
		query.Set("round", strconv.Itoa(shown.Round))
	}
	answer, err := listPictures.ask(ctx, c, query, run, shown.Cell)
	if err != nil {
		return nil, err
	}
	for i := range answer.Pictures {
		p := &answer.Pictures[i]
		p.PNG, err = showPicture.file(ctx, c, nil, run, p.Cell, strconv.Itoa(p.Round), strconv.Itoa(p.Number))
		if err != nil {
			return nil, fmt.Errorf("picture of cell %s after round %d: %w", p.Cell, p.Round, err)
		}
	}
	return answer.Pictures, nil
}
