// FerretDB for the tests: MongoDB's wire protocol over SQLite files in a directory, on a loopback port, which it prints
// once it listens.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"log/slog"
	"net/url"
	"os"
	"os/signal"
	"syscall"

	"github.com/FerretDB/FerretDB/ferretdb"
)

func main() {
	port := flag.String("port", "0", "loopback port to listen on")
	directory := flag.String("directory", "", "directory of the databases")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()

	database, err := ferretdb.New(&ferretdb.Config{
		Listener:  ferretdb.ListenerConfig{TCP: "127.0.0.1:" + *port},
		Logger:    slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
		Handler:   "sqlite",
		SQLiteURL: "file:" + *directory + "/?_pragma=synchronous(off)",
	})
	if err != nil {
		log.Fatal(err)
	}
	address, err := url.Parse(database.MongoDBURI())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(address.Port())
	_ = database.Run(ctx)
}
