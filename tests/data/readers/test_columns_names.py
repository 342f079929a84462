"""The columns of known data sets are known by their names."""

from __future__ import annotations

import pytest

from dpaudit.data.readers.columns import UnknownColumnsError, meanings_of


@pytest.mark.cases(
    ("header", "user", "item", "rating", "time"),
    [
        ("visitorid,itemid,event,timestamp", "visitorid", "itemid", None, "timestamp"),
        (
            "timestamp,visitorid,event,itemid,transactionid",
            "visitorid",
            "itemid",
            None,
            "timestamp",
        ),
        ("session_id,aid,ts,type", "session_id", "aid", None, "ts"),
        ("t_dat,customer_id,article_id,price", "customer_id", "article_id", None, "t_dat"),
        ("userId,movieId,rating,timestamp", "userId", "movieId", "rating", "timestamp"),
        ("reviewerID,asin,overall,reviewTime", "reviewerID", "asin", "overall", "reviewTime"),
        ("user_id,parent_asin,rating,timestamp", "user_id", "parent_asin", "rating", "timestamp"),
        ("review_id,user_id,business_id,stars,date", "user_id", "business_id", "stars", "date"),
        ("uid,iid", "uid", "iid", None, None),
        ("CUST_ID;MOVIE_ID", None, None, None, None),
        ("CUST_ID,PRODUCT", "CUST_ID", "PRODUCT", None, None),
        (
            "InvoiceNo,StockCode,Quantity,InvoiceDate,CustomerID",
            "CustomerID",
            "StockCode",
            None,
            "InvoiceDate",
        ),
        ("sessionId,userId,itemId,timeframe,eventdate", "userId", "itemId", None, "eventdate"),
        ("User-ID,ISBN,Book-Rating", "User-ID", "ISBN", "Book-Rating", None),
        (
            "user_id:token,item_id:token,rating:float,timestamp:float",
            "user_id:token",
            "item_id:token",
            "rating:float",
            "timestamp:float",
        ),
        ("userID,artistID,weight", "userID", "artistID", None, None),
        ("#userId,movie,movieId", "#userId", "movieId", None, None),
        ("user_id,anime_id,my_score", "user_id", "anime_id", "my_score", None),
    ],
)
def test_known_names(
    header: str, user: str | None, item: str | None, rating: str | None, time: str | None
) -> None:
    if user is None:
        with pytest.raises(UnknownColumnsError):
            meanings_of("r.csv", header.split(","))
        return
    meanings = meanings_of("r.csv", header.split(","))
    assert (meanings["user"], meanings["item"]) == (user, item)
    assert (meanings.get("rating"), meanings.get("time")) == (rating, time)


@pytest.mark.cases(
    ("header", "said"),
    [
        ("impression id,user,time,history,impressions", "none is known to hold the item: rename"),
        ("user_id,artist_id,track_id", "columns 'artist_id' and 'track_id', and each may hold the"),
        ("client_id,customer_id,item", "columns 'customer_id' and 'client_id', and each may hold"),
        ("a,b", "hold the user or the item: rename two to user_id and item_id, or name them"),
    ],
)
def test_unknown_and_several_names_need_a_choice(header: str, said: str) -> None:
    with pytest.raises(UnknownColumnsError, match=said) as caught:
        meanings_of("r.csv", header.split(","))
    assert "--columns user=" in str(caught.value)
    assert "columns = { user = '" in str(caught.value)
